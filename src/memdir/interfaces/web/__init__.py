"""HTTP: the server that MCP, the web interface and the team server share (`listen`), and the web interface itself.

    listen.py    a server with timeouts and a connection limit; the checks of the Host and Origin headers
    access.py    access control: one-time token, cookie, and the headers of every response
    site.py      the stores behind the pages, an up-to-date list of their memories, and change events
    pages.py     the content of the list and memory pages; review.py: of inbox and dream; overview.py: of the rest
    actions.py   the user's actions; each is a change that can be undone
    render.py    Markdown, diffs and times as HTML or text; icons
    app.py       routes, templates and errors; `make_app` and `serve`

Pages are rendered on the server, each with a JSON version. They make no decisions about memory. `make_app` takes a
function that returns the `Site` of a request, and its caller adds the middleware for access, so that another server can
mount the application with its own stores and accounts. This file imports nothing.
"""
