"""Tokens of services: chat and mail, payment, project tools, model providers. A table; see formats."""

from memdir.secrets.records import Rule, make_rule

_W = "[A-Za-z0-9_-]"
_AN = "[A-Za-z0-9]"
_HEX = "[0-9a-f]"

_TALK = (
    make_rule(
        "slack-token",
        "a Slack token",
        r"xox[pbaors]-(?:\d{1,2}-)?\d{8,14}-[0-9A-Za-z-]{14,180}+(?!#)|xoxe(?:\.xox[bp])?-\d-[A-Za-z0-9]{100,200}+|xapp-\d-[A-Z0-9]{9,14}-\d{10,14}-[0-9a-f]{60,70}|xox[cd]-[A-Za-z0-9%-]{40,250}+",
        "xox",
        "xapp-",
        bits=2.6,
    ),
    Rule(
        "slack-webhook",
        "a Slack webhook's address",
        r"https?://hooks\.slack\.com/(?:services|workflows|triggers)/(?P<value>[A-Za-z0-9+/]{40,70}+)",
        ("hooks.slack.com",),
        inside=True,
    ),
    make_rule(
        "discord-token",
        "a Discord token",
        f"[MNOA]{_W}{{23,25}}\\.{_W}{{6}}\\.(?:{_W}{{38}}|{_W}{{27}})",
        ".",
        bits=3.8,
    ),
    Rule(
        "discord-webhook",
        "a Discord webhook's address",
        f"https?://(?:\\w{{2,8}}\\.)?discord(?:app)?\\.com/api/(?:v\\d{{1,2}}/)?webhooks/(?P<value>\\d{{17,20}}/{_W}{{60,80}})",
        ("/webhooks/",),
        inside=True,
    ),
    make_rule("telegram-token", "a Telegram bot's token", f"(?:(?<=/)bot)?(?P<value>\\d{{8,10}}:AA{_W}{{33}})", ":aa"),
    Rule(
        "teams-webhook",
        "a Teams webhook's address",
        r"https://[\w.-]{3,60}\.webhook\.office\.com/webhookb2/(?P<value>[\w@-]{36,80}/IncomingWebhook/[0-9a-f]{32}/[\w-]{30,40})",
        ("webhook.office.com",),
        inside=True,
    ),
    make_rule("twilio-key", "a Twilio key", f"SK{_HEX}{{32}}", "sk", bits=3.0),
    make_rule("sendgrid-key", "a SendGrid key", f"SG\\.{_W}{{20,24}}\\.{_W}{{39,50}}", "sg."),
    make_rule("mailgun-key", "a Mailgun key", f"key-{_HEX}{{32}}", "key-", bits=3.0),
    make_rule("mailgun-key", "a Mailgun key", f"{_HEX}{{32}}-{_HEX}{{8}}-{_HEX}{{8}}", "-", bits=3.0),
    make_rule("mailchimp-key", "a Mailchimp key", f"{_HEX}{{32}}-us\\d{{1,2}}", "-us", bits=3.0),
    make_rule("brevo-key", "a Brevo key", f"xkeysib-{_HEX}{{64}}-{_AN}{{16}}", "xkeysib-"),
    make_rule("postmark-token", "a Postmark or Resend key", f"re_{_AN}{{8}}_{_AN}{{20,30}}", "re_", bits=3.5),
    make_rule("facebook-token", "a Facebook token", r"\d{15,16}\|[A-Za-z0-9_-]{27}", "|", bits=3.0),
    make_rule("facebook-token", "a Facebook token", r"EAA[MC][A-Za-z0-9]{80,400}+", "eaam", "eaac", bits=3.5),
)
_SERVICES = (
    make_rule("stripe-key", "a Stripe key", f"(?:sk|rk)_(?:live|test|prod)_{_AN}{{16,247}}", "sk_", "rk_"),
    make_rule("stripe-webhook-secret", "a Stripe webhook secret", "whsec_[A-Za-z0-9+/=]{24,80}+", "whsec_"),
    make_rule("square-token", "a Square token", f"(?:EAAA|sq0(?:atp|csp|idp)-){_W}{{22,60}}", "eaaa", "sq0", bits=3.5),
    make_rule(
        "paypal-token",
        "a Braintree token",
        f"access_token\\$(?:production|sandbox)\\$[0-9a-z]{{16}}\\${_HEX}{{32}}",
        "access_token$",
    ),
    make_rule(
        "shopify-token",
        "a Shopify token",
        "shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",
        "shpat_",
        "shpca_",
        "shppa_",
        "shpss_",
    ),
    make_rule(
        "notion-token", "a Notion token", f"ntn_\\d{{11}}{_AN}{{35}}|secret_{_AN}{{43}}", "ntn_", "secret_", bits=3.3
    ),
    make_rule("linear-key", "a Linear key", f"lin_(?:api|oauth)_{_AN}{{32,64}}", "lin_"),
    make_rule("airtable-token", "an Airtable token", f"pat{_AN}{{14}}\\.{_HEX}{{64}}", "pat"),
    make_rule("asana-token", "an Asana token", f"[12]/\\d{{10,20}}(?:/\\d{{10,20}})?:{_HEX}{{32}}", "/"),
    make_rule("figma-token", "a Figma token", f"fig[dour]_{_W}{{40,60}}", "figd_", "figo_", "figu_", "figr_"),
    make_rule(
        "grafana-token",
        "a Grafana token",
        f"glsa_{_AN}{{32}}_[0-9a-fA-F]{{8}}|glc_[A-Za-z0-9+/]{{32,400}}+={{0,3}}",
        "glsa_",
        "glc_",
        bits=3.3,
    ),
    make_rule("sentry-token", "a Sentry token", f"sntrys_[A-Za-z0-9+/=_-]{{60,400}}+|sntryu_{_HEX}{{64}}", "sntry"),
    make_rule(
        "newrelic-key",
        "a New Relic key",
        f"NRAK-[A-Z0-9]{{27}}|NRII-{_W}{{32}}|{_HEX}{{36}}NRAL",
        "nrak-",
        "nrii-",
        "nral",
    ),
    make_rule("dynatrace-token", "a Dynatrace token", "dt0[a-z]\\d{2}\\.[A-Z0-9]{24}\\.[A-Z0-9]{64}", "dt0"),
    make_rule("easypost-key", "an EasyPost key", f"EZ[AT]K{_AN}{{54}}", "ezak", "eztk", bits=3.5),
    make_rule("duffel-token", "a Duffel token", f"duffel_(?:test|live)_{_W}{{43}}", "duffel_"),
    make_rule("frameio-token", "a Frame.io token", f"fio-u-{_W}{{64}}", "fio-u-"),
    make_rule("typeform-token", "a Typeform token", "tfp_[A-Za-z0-9_.=-]{59}", "tfp_"),
    make_rule("intra42-secret", "a 42 intra secret", f"s-s4t2(?:ud|af)-{_HEX}{{64}}", "s-s4t2"),
    make_rule(
        "onepassword-token",
        "a 1Password service account's token",
        "ops_eyJ[A-Za-z0-9+/_-]{240,4000}+={0,3}",
        "ops_eyj",
        bits=3.5,
    ),
    make_rule(
        "onepassword-key",
        "a 1Password secret key",
        "A3-[A-Z0-9]{6}-[A-Z0-9]{6}(?:-[A-Z0-9]{5}){4}",
        "a3-",
        bits=3.5,
    ),
    make_rule(
        "age-key", "an age identity", "AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}", "age-secret-key-1"
    ),
    make_rule(
        "tailscale-key",
        "a Tailscale key",
        f"tskey-(?:auth|api|client|scim|webhook)-{_AN}{{8,20}}(?:-{_AN}{{20,40}})?",
        "tskey-",
    ),
    make_rule("contentful-token", "a Contentful token", f"CFPAT-{_W}{{43}}", "cfpat-"),
    make_rule("mapbox-token", "a Mapbox secret token", f"sk\\.eyJ{_W}{{60,120}}\\.{_W}{{22}}", "sk.eyj"),
    make_rule("adobe-secret", "an Adobe secret", "p8e-[A-Za-z0-9_-]{32}", "p8e-"),
    make_rule("dropbox-token", "a Dropbox token", f"sl\\.(?:u\\.)?{_W}{{130,1400}}+", "sl."),
    make_rule("finicity-token", "a Lob key", f"(?:live|test)_{_HEX}{{35}}", "live_", "test_"),
    make_rule("razorpay-key", "a Razorpay key", f"rzp_live_{_AN}{{14}}", "rzp_live_"),
)
_MODELS = (
    make_rule(
        "anthropic-key",
        "an Anthropic key",
        f"sk-ant-(?:api|admin|oat|ort|sid)\\d\\d-{_W}{{80,120}}(?<=AA)|sk-ant-(?!(?:api|admin|oat|ort|sid)\\d\\d-){_W}{{20,120}}",
        "sk-ant-",
        bits=3.0,
    ),
    make_rule(
        "openai-key",
        "an OpenAI key",
        f"sk-(?:(?:proj|svcacct|admin|None)-)?{_W}{{20,80}}T3BlbkFJ{_W}{{20,80}}|sk-(?:proj|svcacct|admin)-{_W}{{100,200}}",
        "t3blbkfj",
        "sk-proj-",
        "sk-svcacct-",
        "sk-admin-",
        bits=3.0,
    ),
    make_rule("openrouter-key", "an OpenRouter key", f"sk-or-v1-{_HEX}{{64}}", "sk-or-v1-"),
    # Other providers with an interface of that shape give out `sk-` and 32 to 48 characters.
    make_rule(
        "model-key",
        "a model provider's key",
        f"sk-(?=[a-zA-Z]{{0,30}}\\d)(?:{_AN}{{48}}|{_HEX}{{32}})",
        "sk-",
        bits=3.3,
    ),
    make_rule(
        "huggingface-token",
        "a Hugging Face token",
        f"hf_{_AN}{{34}}|api_org_[A-Za-z]{{34}}",
        "hf_",
        "api_org_",
        bits=3.8,
    ),
    make_rule("groq-key", "a Groq key", f"gsk_{_AN}{{52}}", "gsk_"),
    make_rule("xai-key", "an xAI key", f"xai-{_AN}{{80}}", "xai-"),
    make_rule("perplexity-key", "a Perplexity key", f"pplx-{_AN}{{48}}", "pplx-"),
    make_rule("replicate-token", "a Replicate token", f"r8_{_AN}{{37}}", "r8_"),
    make_rule("nvidia-key", "an NVIDIA key", f"nvapi-{_W}{{60,70}}", "nvapi-"),
    make_rule("fireworks-key", "a Fireworks key", f"fw_{_AN}{{24}}", "fw_", bits=3.8),
    make_rule("tavily-key", "a Tavily key", f"tvly-(?:dev-|prod-)?{_AN}{{32}}", "tvly-"),
    make_rule("langsmith-key", "a LangSmith key", f"lsv2_(?:pt|sk)_{_HEX}{{32}}_{_HEX}{{10}}", "lsv2_"),
    make_rule("wandb-key", "a Weights & Biases key", f"wandb_v1_{_W}{{60,100}}", "wandb_v1_"),
    make_rule("pinecone-key", "a Pinecone key", f"pcsk_{_AN}{{4,8}}_{_AN}{{40,70}}", "pcsk_"),
)
SERVICES: tuple[Rule, ...] = (*_TALK, *_SERVICES, *_MODELS)
