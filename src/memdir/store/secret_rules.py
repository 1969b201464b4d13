"""Tokens of clouds, forges, registries and other places where code is kept and run. A table; see formats."""

from memdir.store.secret_text import SecretRule, make_secret_rule

# --- clouds ---

_W = "[A-Za-z0-9_-]"
_AN = "[A-Za-z0-9]"
_HEX = "[0-9a-f]"

_CLOUDS = (
    SecretRule(
        "aws-access-key",
        "an AWS access key",
        "(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}|A3T[A-Z0-9][A-Z0-9]{16}",
        ("akia", "asia", "abia", "acca", "a3t"),
    ),
    make_secret_rule("aws-bedrock-key", "an Amazon Bedrock key", "ABSK[A-Za-z0-9+/]{109,269}={0,2}", "absk"),
    make_secret_rule(
        "aws-bedrock-key",
        "an Amazon Bedrock key",
        "bedrock-api-key-YmVkcm9jay5hbWF6b25hd3MuY29t[A-Za-z0-9+/=]{20,4000}+",
        "bedrock-api-key-",
    ),
    make_secret_rule("google-api-key", "a Google API key", f"AIza{_W}{{35}}", "aiza", bits=3.0),
    make_secret_rule("google-oauth-secret", "a Google OAuth secret", f"GOCSPX-{_W}{{28}}", "gocspx-"),
    make_secret_rule("google-oauth-token", "a Google OAuth token", f"ya29\\.{_W}{{40,1000}}+", "ya29."),
    SecretRule(
        "google-service-account",
        "a Google service account's key file",
        r'"type"\s{0,9}:\s{0,9}"service_account"',
        ("service_account",),
        inside=True,
    ),
    # An application's secret: three characters, a digit, `Q~`, and 31 to 34 more.
    make_secret_rule(
        "azure-client-secret",
        "an Azure client secret",
        r"[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}(?!~)",
        "q~",
        bits=3.0,
    ),
    SecretRule(
        "azure-storage-key",
        "an Azure storage or bus key",
        r"(?i:AccountKey|SharedAccessKey)[ \t]{0,3}=[ \t]{0,3}(?P<value>[A-Za-z0-9+/]{43,86}={1,2})",
        ("accountkey", "sharedaccesskey"),
        inside=True,
    ),
    make_secret_rule(
        "azure-signature",
        "an Azure shared access signature",
        r"(?<=[?&;])sig=(?P<value>[A-Za-z0-9%+/]{43,63}(?:%3[Dd]|=)?)",
        "sig=",
    ),
    make_secret_rule("azure-devops-token", "an Azure DevOps token", f"{_AN}{{76}}AZDO{_AN}{{4}}", "azdo"),
    make_secret_rule("digitalocean-token", "a DigitalOcean token", f"do[por]_v1_{_HEX}{{64}}", "_v1_"),
    make_secret_rule("alibaba-access-key", "an Alibaba Cloud access key", f"LTAI{_AN}{{16,26}}", "ltai", bits=3.0),
    make_secret_rule(
        "ibm-cloud-key",
        "an IBM Cloud key in an address",
        r"(?i:softlayer\.com/(?:soap|xmlrpc|rest)/v3(?:\.1)?/)(?P<value>[a-z0-9]{64})",
        "softlayer.com",
    ),
    make_secret_rule("cloudflare-origin-key", "a Cloudflare origin key", f"v1\\.0-{_HEX}{{24}}-{_HEX}{{146}}", "v1.0-"),
    make_secret_rule(
        "flyio-token",
        "a Fly.io token",
        "fo1_[A-Za-z0-9_-]{43}|fm[12][ar]?_[A-Za-z0-9+/]{100,2000}+={0,3}",
        "fo1_",
        "fm1",
        "fm2",
    ),
    make_secret_rule("heroku-key", "a Heroku key", f"HRKU-AA{_W}{{58}}", "hrku-aa"),
    make_secret_rule(
        "vercel-token", "a Vercel token", f"vc[pikar]_{_AN}{{24,60}}", "vcp_", "vci_", "vck_", "vca_", "vcr_", bits=3.0
    ),
    make_secret_rule(
        "supabase-token", "a Supabase token", f"sbp_{_HEX}{{40}}|sb_secret_{_W}{{20,80}}", "sbp_", "sb_secret_"
    ),
    make_secret_rule(
        "planetscale-token",
        "a PlanetScale token or password",
        "pscale_(?:tkn|oauth|pw)_[A-Za-z0-9_.=-]{32,64}",
        "pscale_",
    ),
    make_secret_rule("databricks-token", "a Databricks token", f"dapi{_HEX}{{32}}(?:-\\d)?", "dapi", bits=3.0),
    make_secret_rule("clickhouse-key", "a ClickHouse Cloud key", f"4b1d{_AN}{{38}}", "4b1d", bits=3.0),
)
_CODE = (
    make_secret_rule(
        "github-token",
        "a GitHub token",
        f"gh[pousr]_{_AN}{{36,251}}|github_pat_{_AN}{{22}}_{_AN}{{59}}",
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "ghr_",
        "github_pat_",
    ),
    make_secret_rule(
        "gitlab-token",
        "a GitLab token",
        f"gl(?:pat|rt|dt|ft|soat|cbt|imt|ffct|rtr)-(?:{_W}{{20}}|{_W}{{25}}|{_W}{{49,50}}|[A-Za-z0-9_-]{{27,300}}\\.[0-9a-z.]{{9,14}})|glptt-{_W}{{40}}|glagent-{_W}{{50,251}}|gloas-{_W}{{64}}|glcbt-[0-9a-f]{{1,2}}_{_W}{{20}}|glrt-t\\d_{_W}{{20}}",
        "glpat-",
        "glrt-",
        "gldt-",
        "glft-",
        "glsoat-",
        "glcbt-",
        "glimt-",
        "glffct-",
        "glptt-",
        "glagent-",
        "gloas-",
        bits=2.5,
    ),
    make_secret_rule(
        "gitlab-runner-token",
        "a GitLab runner registration token",
        f"GR1348941(?:{_W}{{20}}|{_W}{{50}})",
        "gr1348941",
        bits=2.6,
    ),
    make_secret_rule(
        "bitbucket-token",
        "an Atlassian token",
        r"AT(?:ATT|CTT|BB)[A-Za-z0-9_=-]{24,250}+",
        "atatt",
        "atctt",
        "atbb",
        bits=3.5,
    ),
    make_secret_rule("npm-token", "an npm token", f"npm_{_AN}{{36}}", "npm_"),
    SecretRule(
        "npm-token",
        "an npm registry's token",
        r"(?<!/)//[\w.-]{3,80}+(?::\d{1,5})?(?:/[\w./-]{0,80}+)?:_authToken\s{0,3}=\s{0,3}(?P<value>[A-Za-z0-9_.=+/-]{8,200}+)",
        ("_authtoken",),
        inside=True,
    ),
    make_secret_rule(
        "pypi-token", "a PyPI token", f"pypi-AgE(?:IcHlwaS5vcmc|NdGVzdC5weXBpLm9yZw){_W}{{70,1000}}+", "pypi-age"
    ),
    make_secret_rule("rubygems-token", "a RubyGems token", f"rubygems_{_HEX}{{48}}", "rubygems_"),
    make_secret_rule("crates-token", "a crates.io token", f"cio{_AN}{{32}}", "cio", bits=3.8),
    make_secret_rule("nuget-key", "a NuGet key", "oy2[a-z0-9]{43}", "oy2", bits=3.2),
    make_secret_rule("docker-token", "a Docker Hub token", f"dckr_(?:pat|oat)_{_W}{{27,40}}", "dckr_"),
    # JFrog's keys begin with AKC, its encrypted passwords with AP and a hexadecimal digit.
    # Short as they are they count by shape alone, so that even a row of x is one.
    SecretRule(
        "artifactory-token",
        "an Artifactory key",
        f"(?<![A-Za-z0-9_])(?:(?:AKC|AP[0-9A-F])(?:x{{10}}|(?=[A-Za-z]{{0,60}}[0-9]){_AN}{{10,200}}+)"
        "|cmVmdGtuOjAxO[A-Za-z0-9+/]{50,100}=*)(?![A-Za-z0-9_-])",
        ("akc", *(f"ap{at}" for at in "0123456789abcdef"), "cmvmdgtu"),
        inside=True,
    ),
    make_secret_rule(
        "sourcegraph-token", "a Sourcegraph token", "sgp_(?:[0-9a-fA-F]{16}_|local_)?[0-9a-fA-F]{40}", "sgp_", bits=3.0
    ),
    SecretRule(
        "sourcegraph-token",
        "a Sourcegraph token",
        r"(?i:sourcegraph)\W{1,4}(?P<value>[0-9a-fA-F]{40})(?!\w)",
        ("sourcegraph",),
        inside=True,
    ),
    make_secret_rule("circleci-token", "a CircleCI token", f"CCIPAT_{_AN}{{22}}_{_HEX}{{40}}", "ccipat_"),
    make_secret_rule("octopus-key", "an Octopus Deploy key", "API-[A-Z0-9]{26}", "api-", bits=3.2),
    make_secret_rule(
        "terraform-token", "a Terraform Cloud token", f"{_AN}{{14}}\\.atlasv1\\.{_W}{{60,70}}", ".atlasv1.", bits=3.5
    ),
    make_secret_rule("pulumi-token", "a Pulumi token", f"pul-{_HEX}{{40}}", "pul-"),
    make_secret_rule("prefect-token", "a Prefect token", f"pn[bu]_{_AN}{{36}}", "pnu_", "pnb_"),
    make_secret_rule(
        "doppler-token",
        "a Doppler token",
        f"dp\\.(?:pt|st|ct|scim|audit|sa)\\.(?:[a-z0-9_-]{{2,35}}\\.)?{_AN}{{40,44}}",
        "dp.",
    ),
    make_secret_rule(
        "vault-token", "a HashiCorp Vault token", f"hv[sbr]\\.{_W}{{24,300}}+", "hvs.", "hvb.", "hvr.", bits=3.2
    ),
    make_secret_rule(
        "vault-token",
        "a HashiCorp Vault token",
        f"s\\.(?=[A-Za-z]{{0,23}}\\d)(?=[A-Z0-9]{{0,23}}[a-z])(?=[a-z0-9]{{0,23}}[A-Z]){_AN}{{24}}",
        "s.",
        bits=3.5,
    ),
    make_secret_rule("openshift-token", "an OpenShift token", f"sha256~{_W}{{43}}", "sha256~", bits=3.5),
    make_secret_rule("infracost-key", "an Infracost key", f"(?<!\\.)ico-{_AN}{{32}}", "ico-", bits=3.5),
    make_secret_rule("sonar-token", "a SonarQube token", f"sq[apu]_{_HEX}{{40}}", "sqp_", "sqa_", "squ_"),
    make_secret_rule("postman-key", "a Postman key", f"PMAK-{_HEX}{{24}}-{_HEX}{{34}}", "pmak-"),
    make_secret_rule("readme-key", "a ReadMe key", "rdme_[a-z0-9]{70}", "rdme_"),
)
CLOUDS: tuple[SecretRule, ...] = (*_CLOUDS, *_CODE)


# --- services ---
# Tokens of services: chat and mail, payment, project tools, model providers. A table; see formats.

_TALK = (
    make_secret_rule(
        "slack-token",
        "a Slack token",
        r"xox[pbaors]-(?:\d{1,2}-)?\d{8,14}-[0-9A-Za-z-]{14,180}+(?!#)|xoxe(?:\.xox[bp])?-\d-[A-Za-z0-9]{100,200}+|xapp-\d-[A-Z0-9]{9,14}-\d{10,14}-[0-9a-f]{60,70}|xox[cd]-[A-Za-z0-9%-]{40,250}+",
        "xox",
        "xapp-",
        bits=2.6,
    ),
    SecretRule(
        "slack-webhook",
        "a Slack webhook's address",
        r"https?://hooks\.slack\.com/(?:services|workflows|triggers)/(?P<value>[A-Za-z0-9+/]{40,70}+)",
        ("hooks.slack.com",),
        inside=True,
    ),
    make_secret_rule(
        "discord-token",
        "a Discord token",
        f"[MNOA]{_W}{{23,25}}\\.{_W}{{6}}\\.(?:{_W}{{38}}|{_W}{{27}})",
        ".",
        bits=3.8,
    ),
    SecretRule(
        "discord-webhook",
        "a Discord webhook's address",
        f"https?://(?:\\w{{2,8}}\\.)?discord(?:app)?\\.com/api/(?:v\\d{{1,2}}/)?webhooks/(?P<value>\\d{{17,20}}/{_W}{{60,80}})",
        ("/webhooks/",),
        inside=True,
    ),
    make_secret_rule(
        "telegram-token", "a Telegram bot's token", f"(?:(?<=/)bot)?(?P<value>\\d{{8,10}}:AA{_W}{{33}})", ":aa"
    ),
    SecretRule(
        "teams-webhook",
        "a Teams webhook's address",
        r"https://[\w.-]{3,60}\.webhook\.office\.com/webhookb2/(?P<value>[\w@-]{36,80}/IncomingWebhook/[0-9a-f]{32}/[\w-]{30,40})",
        ("webhook.office.com",),
        inside=True,
    ),
    make_secret_rule("twilio-key", "a Twilio key", f"SK{_HEX}{{32}}", "sk", bits=3.0),
    make_secret_rule("sendgrid-key", "a SendGrid key", f"SG\\.{_W}{{20,24}}\\.{_W}{{39,50}}", "sg."),
    make_secret_rule("mailgun-key", "a Mailgun key", f"key-{_HEX}{{32}}", "key-", bits=3.0),
    make_secret_rule("mailgun-key", "a Mailgun key", f"{_HEX}{{32}}-{_HEX}{{8}}-{_HEX}{{8}}", "-", bits=3.0),
    make_secret_rule("mailchimp-key", "a Mailchimp key", f"{_HEX}{{32}}-us\\d{{1,2}}", "-us", bits=3.0),
    make_secret_rule("brevo-key", "a Brevo key", f"xkeysib-{_HEX}{{64}}-{_AN}{{16}}", "xkeysib-"),
    make_secret_rule("postmark-token", "a Postmark or Resend key", f"re_{_AN}{{8}}_{_AN}{{20,30}}", "re_", bits=3.5),
    make_secret_rule("facebook-token", "a Facebook token", r"\d{15,16}\|[A-Za-z0-9_-]{27}", "|", bits=3.0),
    make_secret_rule("facebook-token", "a Facebook token", r"EAA[MC][A-Za-z0-9]{80,400}+", "eaam", "eaac", bits=3.5),
)
_SERVICES = (
    make_secret_rule("stripe-key", "a Stripe key", f"(?:sk|rk)_(?:live|test|prod)_{_AN}{{16,247}}", "sk_", "rk_"),
    make_secret_rule("stripe-webhook-secret", "a Stripe webhook secret", "whsec_[A-Za-z0-9+/=]{24,80}+", "whsec_"),
    make_secret_rule(
        "square-token", "a Square token", f"(?:EAAA|sq0(?:atp|csp|idp)-){_W}{{22,60}}", "eaaa", "sq0", bits=3.5
    ),
    make_secret_rule(
        "paypal-token",
        "a Braintree token",
        f"access_token\\$(?:production|sandbox)\\$[0-9a-z]{{16}}\\${_HEX}{{32}}",
        "access_token$",
    ),
    make_secret_rule(
        "shopify-token",
        "a Shopify token",
        "shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",
        "shpat_",
        "shpca_",
        "shppa_",
        "shpss_",
    ),
    make_secret_rule(
        "notion-token", "a Notion token", f"ntn_\\d{{11}}{_AN}{{35}}|secret_{_AN}{{43}}", "ntn_", "secret_", bits=3.3
    ),
    make_secret_rule("linear-key", "a Linear key", f"lin_(?:api|oauth)_{_AN}{{32,64}}", "lin_"),
    make_secret_rule("airtable-token", "an Airtable token", f"pat{_AN}{{14}}\\.{_HEX}{{64}}", "pat"),
    make_secret_rule("asana-token", "an Asana token", f"[12]/\\d{{10,20}}(?:/\\d{{10,20}})?:{_HEX}{{32}}", "/"),
    make_secret_rule("figma-token", "a Figma token", f"fig[dour]_{_W}{{40,60}}", "figd_", "figo_", "figu_", "figr_"),
    make_secret_rule(
        "grafana-token",
        "a Grafana token",
        f"glsa_{_AN}{{32}}_[0-9a-fA-F]{{8}}|glc_[A-Za-z0-9+/]{{32,400}}+={{0,3}}",
        "glsa_",
        "glc_",
        bits=3.3,
    ),
    make_secret_rule(
        "sentry-token", "a Sentry token", f"sntrys_[A-Za-z0-9+/=_-]{{60,400}}+|sntryu_{_HEX}{{64}}", "sntry"
    ),
    make_secret_rule(
        "newrelic-key",
        "a New Relic key",
        f"NRAK-[A-Z0-9]{{27}}|NRII-{_W}{{32}}|{_HEX}{{36}}NRAL",
        "nrak-",
        "nrii-",
        "nral",
    ),
    make_secret_rule("dynatrace-token", "a Dynatrace token", "dt0[a-z]\\d{2}\\.[A-Z0-9]{24}\\.[A-Z0-9]{64}", "dt0"),
    make_secret_rule("easypost-key", "an EasyPost key", f"EZ[AT]K{_AN}{{54}}", "ezak", "eztk", bits=3.5),
    make_secret_rule("duffel-token", "a Duffel token", f"duffel_(?:test|live)_{_W}{{43}}", "duffel_"),
    make_secret_rule("frameio-token", "a Frame.io token", f"fio-u-{_W}{{64}}", "fio-u-"),
    make_secret_rule("typeform-token", "a Typeform token", "tfp_[A-Za-z0-9_.=-]{59}", "tfp_"),
    make_secret_rule("intra42-secret", "a 42 intra secret", f"s-s4t2(?:ud|af)-{_HEX}{{64}}", "s-s4t2"),
    make_secret_rule(
        "onepassword-token",
        "a 1Password service account's token",
        "ops_eyJ[A-Za-z0-9+/_-]{240,4000}+={0,3}",
        "ops_eyj",
        bits=3.5,
    ),
    make_secret_rule(
        "onepassword-key",
        "a 1Password secret key",
        "A3-[A-Z0-9]{6}-[A-Z0-9]{6}(?:-[A-Z0-9]{5}){4}",
        "a3-",
        bits=3.5,
    ),
    make_secret_rule(
        "age-key", "an age identity", "AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}", "age-secret-key-1"
    ),
    make_secret_rule(
        "tailscale-key",
        "a Tailscale key",
        f"tskey-(?:auth|api|client|scim|webhook)-{_AN}{{8,20}}(?:-{_AN}{{20,40}})?",
        "tskey-",
    ),
    make_secret_rule("contentful-token", "a Contentful token", f"CFPAT-{_W}{{43}}", "cfpat-"),
    make_secret_rule("mapbox-token", "a Mapbox secret token", f"sk\\.eyJ{_W}{{60,120}}\\.{_W}{{22}}", "sk.eyj"),
    make_secret_rule("adobe-secret", "an Adobe secret", "p8e-[A-Za-z0-9_-]{32}", "p8e-"),
    make_secret_rule("dropbox-token", "a Dropbox token", f"sl\\.(?:u\\.)?{_W}{{130,1400}}+", "sl."),
    make_secret_rule("finicity-token", "a Lob key", f"(?:live|test)_{_HEX}{{35}}", "live_", "test_"),
    make_secret_rule("razorpay-key", "a Razorpay key", f"rzp_live_{_AN}{{14}}", "rzp_live_"),
)
_MODELS = (
    make_secret_rule(
        "anthropic-key",
        "an Anthropic key",
        f"sk-ant-(?:api|admin|oat|ort|sid)\\d\\d-{_W}{{80,120}}(?<=AA)|sk-ant-(?!(?:api|admin|oat|ort|sid)\\d\\d-){_W}{{20,120}}",
        "sk-ant-",
        bits=3.0,
    ),
    make_secret_rule(
        "openai-key",
        "an OpenAI key",
        f"sk-(?:(?:proj|svcacct|admin|None)-)?{_W}{{20,80}}T3BlbkFJ{_W}{{20,80}}|sk-(?:proj|svcacct|admin)-{_W}{{100,200}}",
        "t3blbkfj",
        "sk-proj-",
        "sk-svcacct-",
        "sk-admin-",
        bits=3.0,
    ),
    make_secret_rule("openrouter-key", "an OpenRouter key", f"sk-or-v1-{_HEX}{{64}}", "sk-or-v1-"),
    # Other providers with an interface of that shape give out `sk-` and 32 to 48 characters.
    make_secret_rule(
        "model-key",
        "a model provider's key",
        f"sk-(?=[a-zA-Z]{{0,30}}\\d)(?:{_AN}{{48}}|{_HEX}{{32}})",
        "sk-",
        bits=3.3,
    ),
    make_secret_rule(
        "huggingface-token",
        "a Hugging Face token",
        f"hf_{_AN}{{34}}|api_org_[A-Za-z]{{34}}",
        "hf_",
        "api_org_",
        bits=3.8,
    ),
    make_secret_rule("groq-key", "a Groq key", f"gsk_{_AN}{{52}}", "gsk_"),
    make_secret_rule("xai-key", "an xAI key", f"xai-{_AN}{{80}}", "xai-"),
    make_secret_rule("perplexity-key", "a Perplexity key", f"pplx-{_AN}{{48}}", "pplx-"),
    make_secret_rule("replicate-token", "a Replicate token", f"r8_{_AN}{{37}}", "r8_"),
    make_secret_rule("nvidia-key", "an NVIDIA key", f"nvapi-{_W}{{60,70}}", "nvapi-"),
    make_secret_rule("fireworks-key", "a Fireworks key", f"fw_{_AN}{{24}}", "fw_", bits=3.8),
    make_secret_rule("tavily-key", "a Tavily key", f"tvly-(?:dev-|prod-)?{_AN}{{32}}", "tvly-"),
    make_secret_rule("langsmith-key", "a LangSmith key", f"lsv2_(?:pt|sk)_{_HEX}{{32}}_{_HEX}{{10}}", "lsv2_"),
    make_secret_rule("wandb-key", "a Weights & Biases key", f"wandb_v1_{_W}{{60,100}}", "wandb_v1_"),
    make_secret_rule("pinecone-key", "a Pinecone key", f"pcsk_{_AN}{{4,8}}_{_AN}{{40,70}}", "pcsk_"),
)
SERVICES: tuple[SecretRule, ...] = (*_TALK, *_SERVICES, *_MODELS)
