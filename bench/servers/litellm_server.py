"""LiteLLM's proxy with one model behind it, without a key or a database."""

import os
import sys
from pathlib import Path
from tempfile import NamedTemporaryFile

sys.path.insert(0, str(Path(__file__).parent))
from _serve import read_model_url, serve

CONFIG = """
model_list:
  - model_name: default
    litellm_params: {{model: openai/bench, api_base: "{url}/v1", api_key: bench}}
litellm_settings: {{telemetry: false}}
"""


def main() -> None:
    # The proxy reads its settings while it is imported.
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    os.environ["LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY"] = "true"  # the other servers have no key either
    os.environ["LITELLM_LOG"] = "ERROR"
    with NamedTemporaryFile("w", suffix=".yaml") as config:
        config.write(CONFIG.format(url=read_model_url()))
        config.flush()
        os.environ["CONFIG_FILE_PATH"] = config.name
        from litellm.proxy.proxy_server import app

        serve(app)


if __name__ == "__main__":
    main()
