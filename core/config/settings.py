"""The configuration as the runtime uses it: immutable, complete, without a parser's types. A run keeps the one it was
claimed under (architecture#configuration)."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from core.model.errors import NotFound, Unavailable
from core.model.keys import quoted
from core.model.messages import Usage
from core.model.runs import BUILTIN_MODEL
from core.rules.ruleset import RuleSet

ModelApi = Literal["openai-completions", "anthropic-messages"]
NO_MODEL_HINT: Final = (
    "No model is set, so the builtin agent answers, offline."
    " For a real one set SWITCHBOARD_MODEL_URL and SWITCHBOARD_MODEL."
)
THINKING_LEVELS: Final = ("off", "minimal", "low", "medium", "high")


@dataclass(frozen=True, slots=True)
class Secret:
    """A key that is read when it is needed and never shown.

    `env` and `file` name the place, `literal` holds the value itself; `what` is for the sentence that it is not there.
    """

    where: Literal["env", "file", "literal"]
    value: str = field(repr=False)
    what: str = "the model's key"

    def reveal(self) -> str:
        """Return the secret itself; `Unavailable`, naming it, when the variable or the file is not there."""
        if self.where == "literal":
            return self.value
        if self.where == "env":
            found = os.environ.get(self.value, "").strip()
            if not found:
                raise Unavailable(f"the environment variable {self.value}, which holds {self.what}, is not set")
            return found
        try:
            found = Path(self.value).expanduser().read_text(encoding="utf-8").strip()
        except RuntimeError:
            raise Unavailable(f"the key file {self.value} cannot be read: there is no such home directory") from None
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise Unavailable(f"the key file {self.value} cannot be read: {reason}") from None
        if not found:
            raise Unavailable(f"the key file {self.value} is empty: put {self.what} into it")
        return found

    @property
    def words(self) -> str:
        """Where it comes from, for `doctor`; never the secret."""
        return "written in the configuration file" if self.where == "literal" else f"{self.where} {self.value}"


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0

    def of(self, usage: Usage) -> float:
        """Return what this usage costs in US dollars."""
        return (
            usage.input * self.input
            + usage.output * self.output
            + usage.cache_read * self.cache_read
            + usage.cache_write * self.cache_write
        ) / 1_000_000


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """One model of one provider.

    Attributes:
        model_id: As the provider knows it; empty means the first that the endpoint lists.
        context_window: Tokens, None when unknown.
        max_tokens: Most tokens of one reply, None to leave it to the endpoint.
        images: Whether it reads images; None where nobody has said.
    """

    provider: str
    model_id: str
    api: ModelApi
    base_url: str
    api_key: Secret | None = None
    context_window: int | None = None
    max_tokens: int | None = None
    price: Price | None = None
    images: bool | None = None

    @property
    def takes_images(self) -> bool:
        """Whether it may be sent images: endpoints for many models refuse a whole request that has one."""
        return self.api == "anthropic-messages" if self.images is None else self.images

    @property
    def ref(self) -> str:
        """The name that configuration and sessions use: `<provider>/<model id>`."""
        return f"{self.provider}/{self.model_id}" if self.model_id else self.provider


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """One configured agent.

    Attributes:
        model: Ref of its model, or `builtin`.
        thinking: Thinking level, None to leave it to the model.
        workspace: Its folder for files (W8), None for one inside the state directory.
    """

    agent_id: str
    model: str = BUILTIN_MODEL
    name: str | None = None
    thinking: str | None = None
    system_prompt: str | None = None
    workspace: Path | None = None


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """What the operator likes of the console; the console itself says which names there are.

    Attributes:
        theme: Name of the colours, None for the console's own choice.
        keymap: Keys by the id of an action; several are separated by commas.
        bell: Ring when a session fails that the operator is not looking at.
    """

    theme: str | None = None
    keymap: dict[str, str] = field(default_factory=dict[str, str])
    bell: bool = True


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """A gateway elsewhere, as the configuration or `switchboard connect` has it.

    Attributes:
        name: How the operator calls it.
        url: `ws`, `wss`, `http` or `https`, without user, password, query and fragment.
        token: The gateway's token, None when there is none to give.
        ca: A PEM file of the authority that signed its certificate, None for those of the system.
        fingerprint: SHA-256 of the one certificate that is accepted, in lower-case hex; None for any vouched for.
        insecure: Go there without TLS although it is on another machine, so that everybody on the way can read along.
    """

    name: str
    url: str
    token: Secret | None = None
    ca: Path | None = None
    fingerprint: str | None = None
    insecure: bool = False


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Where `switchboard serve` listens, and whom it lets in.

    Attributes:
        host: IP address to listen on.
        public_origin: Where it is reached from elsewhere, such as `https://gateway.example.com`; None when it is not.
        origins: Of the web pages that may use it.
        token: None for one that is made at the first start and kept in the state directory.
        read_only_token: None for none.
        certificate: File with the certificate chain, None for no TLS; `key` likewise.
        proxies: Addresses of reverse proxies that may say for whom they ask.
    """

    host: str = "127.0.0.1"
    port: int = 18789
    public_origin: str | None = None
    origins: tuple[str, ...] = ()
    token: Secret | None = None
    read_only_token: Secret | None = None
    certificate: Path | None = None
    key: Path | None = None
    proxies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything configured.

    Attributes:
        max_concurrent: Runs of ordinary sessions at once.
        subagent_max_concurrent: Runs of sub-agents at once, in a pool of their own.
        subagent_timeout_ms: Default for the run of a sub-agent, 0 for none.
        archive_after_ms: A sub-agent goes to the archive that long after its run has ended, 0 for never (W7).
        max_ping_pong_turns: Turns of the reply-back loop after a send, 0 to 5 (S9).
        max_hops: Sends that one message of a person may cause, directly or not (architecture#exchanges).
        gateways: Gateways elsewhere, by name, in the order of the file.
        notices: Sentences about what was ignored or is unwise; shown once.
        origins: Where each setting that is not a default came from, for `doctor`: (setting, value, place).
    """

    rules: RuleSet = field(default_factory=RuleSet)
    agents: dict[str, AgentSettings] = field(default_factory=lambda: {"main": AgentSettings("main")})
    models: dict[str, ModelSettings] = field(default_factory=dict[str, ModelSettings])
    max_concurrent: int = 4
    subagent_max_concurrent: int = 8
    subagent_timeout_ms: int = 0
    archive_after_ms: int = 3_600_000
    max_ping_pong_turns: int = 5
    max_hops: int = 16
    console: ConsoleSettings = field(default_factory=ConsoleSettings)
    server: ServerSettings = field(default_factory=ServerSettings)
    gateways: dict[str, GatewaySettings] = field(default_factory=dict[str, GatewaySettings])
    notices: tuple[str, ...] = ()
    origins: tuple[tuple[str, str, str], ...] = ()

    @property
    def has_model(self) -> bool:
        """Whether the default agent has a model other than the builtin one."""
        return self.agents[self.rules.default_agent].model != BUILTIN_MODEL

    @property
    def hint(self) -> str:
        """One line for a start without a model; empty with one."""
        return "" if self.has_model else NO_MODEL_HINT

    def agent(self, agent_id: str) -> AgentSettings:
        """Return a configured agent; `NotFound` when there is none with that id."""
        found = self.agents.get(agent_id)
        if found is None:
            known = ", ".join(sorted(self.agents))
            raise NotFound(f"agent {quoted(agent_id)} is not configured: use one of {known}")
        return found

    def model(self, ref: str) -> ModelSettings | None:
        """Return a configured model, None for the builtin one; `NotFound` when there is none with that name."""
        if ref == BUILTIN_MODEL:
            return None
        found = self.models.get(ref)
        if found is None:
            known = ", ".join([*sorted(self.models), BUILTIN_MODEL])
            raise NotFound(f"model {quoted(ref)} is not configured: use one of {known}")
        return found
