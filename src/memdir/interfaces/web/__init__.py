"""HTTP: the server that MCP, the page and the team server share (`listen`), and the page of `memdir ui`.

    listen.py    a server with an end to each wait and a limit on connections; the checks of host and origin
    access.py    who may use the page: one-time token, cookie, and the headers of every answer
    site.py      the stores behind a page, a list of their memories that is kept up to date, and events when files change
    pages.py     what the list and one memory show, as plain tables; review.py: inbox and dream; overview.py: the rest
    actions.py   what a person does on a page, each one a change that can be undone
    render.py    Markdown, differences and times as HTML or words; icons
    app.py       addresses, templates and errors; `make_app` and `serve`

The page is HTML made on the server, with a JSON twin of each address. It holds no rule of memory. `make_app` takes a function
from a request to its `Site`, and the middleware that lets requests in, so that another server can mount it with stores
and accounts of its own. This file imports nothing.
"""
