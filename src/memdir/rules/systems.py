"""Systems outside the project that people point to, by name, by address,
    by channel; and how one says that it is there.

Names of products are the same in every language. It knows the common ones; an address or a channel needs no name.
"""

_NAMES = (
    "jira|confluence|slack|discord|grafana|kibana|datadog|sentry|figma|trello|asana|airtable|"
    "zendesk|"
    "intercom|pagerduty|opsgenie|statuspage|metabase|power ?bi|google (?:drive|docs|sheets|"
    "calendar)|"
    "sharepoint|onedrive|dropbox|mattermost|rocket\\.?chat|zulip|bugzilla|youtrack|clickup|basecamp|"
    "monday\\.com|"
    "github (?:issues|discussions|wiki|projects?)|gitlab (?:issues|wiki)|azure devops|redmine|phabricator|mantis|"
    "rollbar|bugsnag|"
    "new relic|splunk|prometheus|lightstep|jaeger|argo ?cd|jenkins|buildkite|circleci|teamcity|artifactory|"
    "artifactory|"
    "1password|bitwarden|okta|salesforce|hubspot|stripe dashboard|amplitude|mixpanel|posthog|snowflake|bigquery|"
    "databricks|"
    "swagger ?hub|postman|stoplight|readme\\.io|gitbook|zeplin|invision|lucidchart|launchdarkly|testrail|sonarqube|"
    "crowdin|lokalise|"
    "transifex|weblate|the (?:internal |company |team )?wiki|intranet|service ?now|freshdesk|kintone"
)
_WIDE = "飞书|钉钉|企业微信|语雀|禅道|石墨"
_LETTER = r"[a-zA-Zà-ÿ\d_-]"  # a Chinese character may touch a name
# Names that are words as well: written as a name, or standing where a place is named.
_WORDS = "linear|notion|miro|looker|tableau|superset|teams|shortcut|honeycomb|nexus|vault|backlog|amplitude"
_NAMED = "|".join(name.capitalize() for name in _WORDS.split("|"))
_WORDY = (
    rf"(?-i:(?:{_NAMED}))(?! of\b)|(?:(?<=\bin )|(?<=\bon )|(?<=\bvia )|(?<=\bthe ))(?:{_WORDS})(?! (?:of|time|that|"
    r"who|are|is|have|and|with|\w+ion)\b)"
)
_ADDRESS = (
    r"https?://\S+|(?:[\w-]+\.)+(?:com|org|net|io|dev|internal|local|example|corp|company|lan|intra|app|"
    r"cloud)(?:/\S*)?|go/[\w-]+"
)
_CHANNEL = r"(?-i:(?<![\w&/])#[a-zà-ÿ][a-zà-ÿ\d_-]+)(?![\w-])"
# "The Slack module" is code, not the place.
_CODE = r"(?! (?:module|client|class|integration|adapter|plugin|component|sdk|connector|handler|tests?)\b)"
SYSTEM = rf"(?:(?<!{_LETTER})(?:{_NAMES}|{_WORDY})(?!{_LETTER}){_CODE}|{_WIDE}|{_ADDRESS}|{_CHANNEL})"

PLACED = {
    "en": r"(?:is|are|gets?) (?:being )?(?:also |all |now |still |only )?(?:tracked|documented|kept|stored|filed|"
    r"logged|collected|written down|"
    r"recorded|reported|posted|published|discussed|announced|described|managed|planned|handled|located|found|hosted|"
    r"maintained|archived|specified|defined)? ?"
    r"(?:in|on|at|under|via|through|to)|(?:lives?|sits?|resides?) (?:in|on|at|under)|(?:go|goes|come|comes|land|lands|"
    r"arrive|arrives|belong|belongs)(?: in)? (?:in|to|into|on|through|via|from)|is where|are where",
}
