"""Tokens of clouds, forges, registries and other places where code is kept and run. A table; see formats."""

from memdir.secrets.records import Rule, make_rule

_W = "[A-Za-z0-9_-]"
_AN = "[A-Za-z0-9]"
_HEX = "[0-9a-f]"

_CLOUDS = (
    Rule(
        "aws-access-key",
        "an AWS access key",
        "(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}|A3T[A-Z0-9][A-Z0-9]{16}",
        ("akia", "asia", "abia", "acca", "a3t"),
    ),
    make_rule("aws-bedrock-key", "an Amazon Bedrock key", "ABSK[A-Za-z0-9+/]{109,269}={0,2}", "absk"),
    make_rule(
        "aws-bedrock-key",
        "an Amazon Bedrock key",
        "bedrock-api-key-YmVkcm9jay5hbWF6b25hd3MuY29t[A-Za-z0-9+/=]{20,4000}+",
        "bedrock-api-key-",
    ),
    make_rule("google-api-key", "a Google API key", f"AIza{_W}{{35}}", "aiza", bits=3.0),
    make_rule("google-oauth-secret", "a Google OAuth secret", f"GOCSPX-{_W}{{28}}", "gocspx-"),
    make_rule("google-oauth-token", "a Google OAuth token", f"ya29\\.{_W}{{40,1000}}+", "ya29."),
    Rule(
        "google-service-account",
        "a Google service account's key file",
        r'"type"\s{0,9}:\s{0,9}"service_account"',
        ("service_account",),
        inside=True,
    ),
    # An application's secret: three characters, a digit, `Q~`, and 31 to 34 more.
    make_rule(
        "azure-client-secret",
        "an Azure client secret",
        r"[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}(?!~)",
        "q~",
        bits=3.0,
    ),
    Rule(
        "azure-storage-key",
        "an Azure storage or bus key",
        r"(?i:AccountKey|SharedAccessKey)[ \t]{0,3}=[ \t]{0,3}(?P<value>[A-Za-z0-9+/]{43,86}={1,2})",
        ("accountkey", "sharedaccesskey"),
        inside=True,
    ),
    make_rule(
        "azure-signature",
        "an Azure shared access signature",
        r"(?<=[?&;])sig=(?P<value>[A-Za-z0-9%+/]{43,63}(?:%3[Dd]|=)?)",
        "sig=",
    ),
    make_rule("azure-devops-token", "an Azure DevOps token", f"{_AN}{{76}}AZDO{_AN}{{4}}", "azdo"),
    make_rule("digitalocean-token", "a DigitalOcean token", f"do[por]_v1_{_HEX}{{64}}", "_v1_"),
    make_rule("alibaba-access-key", "an Alibaba Cloud access key", f"LTAI{_AN}{{16,26}}", "ltai", bits=3.0),
    make_rule(
        "ibm-cloud-key",
        "an IBM Cloud key in an address",
        r"(?i:softlayer\.com/(?:soap|xmlrpc|rest)/v3(?:\.1)?/)(?P<value>[a-z0-9]{64})",
        "softlayer.com",
    ),
    make_rule("cloudflare-origin-key", "a Cloudflare origin key", f"v1\\.0-{_HEX}{{24}}-{_HEX}{{146}}", "v1.0-"),
    make_rule(
        "flyio-token",
        "a Fly.io token",
        "fo1_[A-Za-z0-9_-]{43}|fm[12][ar]?_[A-Za-z0-9+/]{100,2000}+={0,3}",
        "fo1_",
        "fm1",
        "fm2",
    ),
    make_rule("heroku-key", "a Heroku key", f"HRKU-AA{_W}{{58}}", "hrku-aa"),
    make_rule(
        "vercel-token", "a Vercel token", f"vc[pikar]_{_AN}{{24,60}}", "vcp_", "vci_", "vck_", "vca_", "vcr_", bits=3.0
    ),
    make_rule("supabase-token", "a Supabase token", f"sbp_{_HEX}{{40}}|sb_secret_{_W}{{20,80}}", "sbp_", "sb_secret_"),
    make_rule(
        "planetscale-token",
        "a PlanetScale token or password",
        "pscale_(?:tkn|oauth|pw)_[A-Za-z0-9_.=-]{32,64}",
        "pscale_",
    ),
    make_rule("databricks-token", "a Databricks token", f"dapi{_HEX}{{32}}(?:-\\d)?", "dapi", bits=3.0),
    make_rule("clickhouse-key", "a ClickHouse Cloud key", f"4b1d{_AN}{{38}}", "4b1d", bits=3.0),
)
_CODE = (
    make_rule(
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
    make_rule(
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
    make_rule(
        "gitlab-runner-token",
        "a GitLab runner registration token",
        f"GR1348941(?:{_W}{{20}}|{_W}{{50}})",
        "gr1348941",
        bits=2.6,
    ),
    make_rule(
        "bitbucket-token",
        "an Atlassian token",
        r"AT(?:ATT|CTT|BB)[A-Za-z0-9_=-]{24,250}+",
        "atatt",
        "atctt",
        "atbb",
        bits=3.5,
    ),
    make_rule("npm-token", "an npm token", f"npm_{_AN}{{36}}", "npm_"),
    Rule(
        "npm-token",
        "an npm registry's token",
        r"(?<!/)//[\w.-]{3,80}+(?::\d{1,5})?(?:/[\w./-]{0,80}+)?:_authToken\s{0,3}=\s{0,3}(?P<value>[A-Za-z0-9_.=+/-]{8,200}+)",
        ("_authtoken",),
        inside=True,
    ),
    make_rule(
        "pypi-token", "a PyPI token", f"pypi-AgE(?:IcHlwaS5vcmc|NdGVzdC5weXBpLm9yZw){_W}{{70,1000}}+", "pypi-age"
    ),
    make_rule("rubygems-token", "a RubyGems token", f"rubygems_{_HEX}{{48}}", "rubygems_"),
    make_rule("crates-token", "a crates.io token", f"cio{_AN}{{32}}", "cio", bits=3.8),
    make_rule("nuget-key", "a NuGet key", "oy2[a-z0-9]{43}", "oy2", bits=3.2),
    make_rule("docker-token", "a Docker Hub token", f"dckr_(?:pat|oat)_{_W}{{27,40}}", "dckr_"),
    # JFrog's keys begin with AKC, its encrypted passwords with AP and a hexadecimal digit.
    # Short as they are they count by shape alone, so that even a row of x is one.
    Rule(
        "artifactory-token",
        "an Artifactory key",
        f"(?<![A-Za-z0-9_])(?:(?:AKC|AP[0-9A-F])(?:x{{10}}|(?=[A-Za-z]{{0,60}}[0-9]){_AN}{{10,200}}+)"
        "|cmVmdGtuOjAxO[A-Za-z0-9+/]{50,100}=*)(?![A-Za-z0-9_-])",
        ("akc", *(f"ap{at}" for at in "0123456789abcdef"), "cmvmdgtu"),
        inside=True,
    ),
    make_rule(
        "sourcegraph-token", "a Sourcegraph token", "sgp_(?:[0-9a-fA-F]{16}_|local_)?[0-9a-fA-F]{40}", "sgp_", bits=3.0
    ),
    Rule(
        "sourcegraph-token",
        "a Sourcegraph token",
        r"(?i:sourcegraph)\W{1,4}(?P<value>[0-9a-fA-F]{40})(?!\w)",
        ("sourcegraph",),
        inside=True,
    ),
    make_rule("circleci-token", "a CircleCI token", f"CCIPAT_{_AN}{{22}}_{_HEX}{{40}}", "ccipat_"),
    make_rule("octopus-key", "an Octopus Deploy key", "API-[A-Z0-9]{26}", "api-", bits=3.2),
    make_rule(
        "terraform-token", "a Terraform Cloud token", f"{_AN}{{14}}\\.atlasv1\\.{_W}{{60,70}}", ".atlasv1.", bits=3.5
    ),
    make_rule("pulumi-token", "a Pulumi token", f"pul-{_HEX}{{40}}", "pul-"),
    make_rule("prefect-token", "a Prefect token", f"pn[bu]_{_AN}{{36}}", "pnu_", "pnb_"),
    make_rule(
        "doppler-token",
        "a Doppler token",
        f"dp\\.(?:pt|st|ct|scim|audit|sa)\\.(?:[a-z0-9_-]{{2,35}}\\.)?{_AN}{{40,44}}",
        "dp.",
    ),
    make_rule("vault-token", "a HashiCorp Vault token", f"hv[sbr]\\.{_W}{{24,300}}+", "hvs.", "hvb.", "hvr.", bits=3.2),
    make_rule(
        "vault-token",
        "a HashiCorp Vault token",
        f"s\\.(?=[A-Za-z]{{0,23}}\\d)(?=[A-Z0-9]{{0,23}}[a-z])(?=[a-z0-9]{{0,23}}[A-Z]){_AN}{{24}}",
        "s.",
        bits=3.5,
    ),
    make_rule("openshift-token", "an OpenShift token", f"sha256~{_W}{{43}}", "sha256~", bits=3.5),
    make_rule("infracost-key", "an Infracost key", f"(?<!\\.)ico-{_AN}{{32}}", "ico-", bits=3.5),
    make_rule("sonar-token", "a SonarQube token", f"sq[apu]_{_HEX}{{40}}", "sqp_", "sqa_", "squ_"),
    make_rule("postman-key", "a Postman key", f"PMAK-{_HEX}{{24}}-{_HEX}{{34}}", "pmak-"),
    make_rule("readme-key", "a ReadMe key", "rdme_[a-z0-9]{70}", "rdme_"),
)
CLOUDS: tuple[Rule, ...] = (*_CLOUDS, *_CODE)
