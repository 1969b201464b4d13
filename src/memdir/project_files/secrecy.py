"""Does a file look like a secret: by its path, before it is opened, and by its text, before it is shown. Pure.

Such a file is never included, with no approval either: whatever an instruction file names goes to a model's provider.
The lists err on the side of refusing data; prose and code about secrets (`docs/tokens.md`, `token.py`) pass by name,
and are then judged by what they hold. A secret in a place and a shape that nobody knows is not found.
"""

import os
import re
from fnmatch import fnmatchcase

from memdir.secrets import holds_token

# Folders that exist to hold secrets: nothing below them is read.
_FOLDERS = frozenset(
    {
        *(".ssh", ".gnupg", ".gpg", ".aws", ".azure", ".kube", ".password-store", ".vault", ".sops", ".age", ".pki"),
        *("keyrings", "keychains", ".minikube", ".oci", ".putty", ".mozilla", ".thunderbird", ".bitcoin", ".ethereum"),
        *("gcloud", "gh", "op", "rclone", "google-chrome", "chromium", "bravesoftware", "1password", "bitwarden"),
    }
)
# Of those, names that projects use too: a secret only below a person's configuration folder.
_ONLY_CONFIGURED = frozenset(
    {"gcloud", "gh", "op", "rclone", "google-chrome", "chromium", "bravesoftware", "1password", "bitwarden"}
)
_CONFIGURED = frozenset({".config", ".local", "application support", "appdata"})
_TREES = ("/run/secrets", "/var/run/secrets", "/run/credentials", "/etc/ssl/private", "/etc/sudoers.d")
_NAMES = frozenset(
    {
        *(".netrc", "_netrc", ".authinfo", ".pgpass", "pgpass.conf", ".my.cnf", ".mylogin.cnf", ".git-credentials"),
        *(".npmrc", ".yarnrc", ".yarnrc.yml", ".pypirc", ".gemrc", ".htpasswd", ".htdigest", ".dockercfg", ".boto"),
        *(".s3cfg", ".vault-token", ".vault_pass", ".terraformrc", "terraform.rc", ".envrc", ".env", ".claude.json"),
        *("shadow", "shadow-", "gshadow", "gshadow-", "sudoers", "master.key", "wallet.dat", "authorized_keys"),
        *("kubeconfig", "auth.json", "application_default_credentials.json", "login.keychain-db"),
        *("credentials.tfrc.json", "key4.db", "logins.json", "cookies.sqlite", "login data"),
    }
)
_PATTERNS = (
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "ssh_host_*", "identity", "*_rsa", "*_dsa", "*_ed25519"),
    *("*.pem", "*.key", "*.p8", "*.p12", "*.pfx", "*.pkcs12", "*.jks", "*.keystore", "*.kdb", "*.kdbx", "*.ppk"),
    *("*.gpg", "*.pgp", "*.asc", "*.age", "*.ovpn", "*.keytab", "*.tfstate*", "*.tfvars*", "*.env", ".env.*"),
    *("*_history", ".*history", "*.psql_history", "*.kubeconfig", "*.mobileprovision", "secring.*", "*.agekey"),
)
_SAMPLES = ("example", "sample", "template", "dist", "defaults", "schema")
_PAIRS = frozenset({(".docker", "config.json"), (".m2", "settings.xml"), (".gem", "credentials")})
_WORDS = re.compile(
    r"(?:^|[._\- ])(?:credentials?|creds?|secrets?|passwords?|passwd|passphrases?|tokens?|api[_-]?keys?|apitokens?|"
    r"access[_-]?keys?|private[_-]?keys?|service[_-]?accounts?|client[_-]secrets?|mnemonics?|oauth2?)(?:[._\- ]|$)"
)
# Data, where such a word in the name says what is inside. In prose and code it says what it is about.
_DATA = frozenset(
    {"", "txt", "text", "log", "json", "jsonc", "json5", "yaml", "yml", "toml", "ini", "cfg", "conf", "config", "csv"}
    | {"tsv", "xml", "properties", "plist", "sql", "env", "local", "bak", "old", "backup", "enc", "data"}
)
_KEY_HEAD = re.compile(r"\s*(?:-----BEGIN [A-Z0-9 ]*(?:PRIVATE KEY|PGP MESSAGE)[A-Z ]*-----|PuTTY-User-Key-File-\d)")


def looks_secret(path: str) -> bool:
    """Whether a path names something that holds secrets, whatever is really there."""
    folded = os.path.normpath(path).casefold()
    *folders, name = [part for part in folded.split("/") if part] or [""]
    if any(folded == tree or folded.startswith(f"{tree}/") for tree in _TREES):
        return True
    kept = set(folders) & _FOLDERS
    if kept - _ONLY_CONFIGURED or (kept and set(folders) & _CONFIGURED):
        return True
    return _is_secret_name(name, folders[-1] if folders else "")


def holds_key(text: str) -> bool:
    """Whether a text begins as private keys do."""
    return bool(_KEY_HEAD.match(text))


def holds_secret(text: str) -> bool:
    """Whether there is a private key or an unmistakable access token anywhere in it.

    A password that only the words around it tell is no reason to refuse a file: prose about them is what is included.
    """
    return holds_key(text) or holds_token(text)


def _is_secret_name(name: str, folder: str) -> bool:
    if name.rpartition(".")[2] in _SAMPLES:
        return False
    if name in _NAMES or (folder, name) in _PAIRS or any(fnmatchcase(name, pattern) for pattern in _PATTERNS):
        return True
    extension = name.rpartition(".")[2] if "." in name[1:] else ""
    return extension in _DATA and bool(_WORDS.search(name))
