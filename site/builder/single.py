"""A studio as one HTML file that works from a folder, a mail or a USB stick: everything it needs is inside."""

import base64
import gzip
import re

from builder.assets import Assets
from builder.pages import WORKER_FILES, Painted, configuration, player_role
from builder.policy import THEME, data_script, policy, policy_tag


def single_head(assets: Assets) -> str:
    """What goes into <head>: the policy names the inline scripts by hash, the style sheet stands in the page."""
    scripts = inline_scripts(assets)
    return "\n".join([policy_tag(policy((THEME, *scripts), single_file=True)), f"<script>{THEME}</script>",
                      f"<style>{assets.files['style.css'].data.decode()}</style>"])


def inline_scripts(assets: Assets) -> tuple[str, str]:
    """The scripts that stand in the page as they are: theme, then client."""
    scripts = tuple(assets.files[name].data.decode() for name in ("theme.mjs", "client.mjs"))
    for text in scripts:
        if re.search(r"</script|<!--", text):
            raise ValueError("a script that stands in a page must not hold a closing tag")
    return scripts


def single_tail(assets: Assets, painted: Painted) -> str:
    """What goes before </body>: configuration, the packed files as inert elements, the scripts."""
    theme, client = inline_scripts(assets)
    wanted = [role for role in assets.of(painted.name) if role not in ("style.css", "client.mjs", "theme.mjs")
              and (role in WORKER_FILES or not role.endswith((".whl", ".player.mjs")) or needed(role, painted))]
    packed = "\n".join(f'<script type="text/plain" data-file="{role}">{pack(assets.files[role].data)}</script>'
                       for role in wanted)
    wheels = tuple(role for role in wanted if role.endswith(".whl"))
    return "\n".join([data_script("bridge", configuration(assets, "", painted, wheels)), packed,
                      f'<script type="module">{theme}</script>', f'<script type="module">{client}</script>'])


def needed(role: str, painted: Painted) -> bool:
    """Whether a single file carries a package or a player: what its studio loads, and what the drawer installs with."""
    return role == player_role(painted.name) or role.split("-")[0] in {*painted.view.PACKAGES, "micropip", "packaging"}


def pack(data: bytes) -> str:
    """Gzipped, in base64."""
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()
