"""Words of which many different facts are made."""

NOUNS = (
    "kestrel walnut harbour copper violin lantern glacier meadow saffron anchor marble thistle falcon cedar compass "
    "velvet orchid granite sparrow juniper pepper canyon ribbon walrus cobalt ginger summit teapot dragon pickle "
    "quartz badger lilac tunnel mango hornet pebble scarlet willow tractor"
).split()
SHAPES = (
    "the {a} dashboard is owned by the {b} crew",
    "invoices of {a} are archived in the {b} vault",
    "{a} backups are copied to the {b} cellar",
    "the {a} printer needs {b} paper",
    "alarms about {a} go to the {b} pager",
    "the {a} licence is paid by the {b} branch",
    "visitors of the {a} portal speak {b}",
    "the {a} cluster is cooled by {b} pumps",
)
