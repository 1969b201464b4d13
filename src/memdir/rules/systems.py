"""Systems outside the project that people point to, by name, by address,
    by channel; and how one says that it is there.

Names of products are the same in every language. It knows the common ones; an address or a channel needs no name.
"""

_NAMES = (
    "linear|jira|confluence|notion|slack|discord|grafana|kibana|datadog|sentry|figma|miro|trello|asana|airtable|"
    "zendesk|"
    "intercom|pagerduty|opsgenie|statuspage|looker|metabase|tableau|power ?bi|superset|google (?:drive|docs|sheets|"
    "calendar)|"
    "sharepoint|onedrive|dropbox|teams|mattermost|rocket\\.?chat|zulip|bugzilla|youtrack|shortcut|clickup|basecamp|"
    "monday\\.com|"
    "github (?:issues|discussions|wiki|projects?)|gitlab (?:issues|wiki)|azure devops|redmine|phabricator|mantis|"
    "rollbar|bugsnag|"
    "new relic|splunk|prometheus|honeycomb|lightstep|jaeger|argo ?cd|jenkins|buildkite|circleci|teamcity|artifactory|"
    "nexus|vault|"
    "1password|bitwarden|okta|salesforce|hubspot|stripe dashboard|amplitude|mixpanel|posthog|snowflake|bigquery|"
    "databricks|"
    "swagger ?hub|postman|stoplight|readme\\.io|gitbook|zeplin|invision|lucidchart|launchdarkly|testrail|sonarqube|"
    "crowdin|lokalise|"
    "transifex|weblate|the (?:internal |company |team )?wiki|intranet|service ?now|freshdesk|飞书|钉钉|企业微信|语雀|"
    "禅道|石墨|backlog|kintone"
)
_ADDRESS = (
    r"https?://\S+|(?:[\w-]+\.)+(?:com|org|net|io|dev|internal|local|example|corp|company|lan|intra|app|"
    r"cloud)(?:/\S*)?|go/[\w-]+"
)
_CHANNEL = r"(?-i:(?<![\w&/])#[a-zà-ÿ][a-zà-ÿ\d_-]+)(?![\w-])"
# "The Slack module" is code, not the place.
_CODE = r"(?! (?:module|client|class|integration|adapter|plugin|component|sdk|connector|handler|tests?)\b)"
SYSTEM = rf"(?:(?<![\w-])(?:{_NAMES})(?![\w-]){_CODE}|{_ADDRESS}|{_CHANNEL})"

PLACED = {
    "en": r"(?:is|are|gets?) (?:being )?(?:also |all |now |still |only )?(?:tracked|documented|kept|stored|filed|"
    r"logged|collected|written down|"
    r"recorded|reported|posted|published|discussed|announced|described|managed|planned|handled|located|found|hosted|"
    r"maintained|archived|specified|defined)? ?"
    r"(?:in|on|at|under|via|through|to)|(?:lives?|sits?|resides?) (?:in|on|at|under)|(?:go|goes|come|comes|land|lands|"
    r"arrive|arrives|belong|belongs)(?: in)? (?:in|to|into|on|through|via|from)|is where|are where",
}
