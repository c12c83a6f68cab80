"""The configuration file as people write it: JSON5 in the shape of the documents and of OpenClaw's own file.

What is ours is spelled out here; everything else in the file is ignored and named once (`load`). Older spellings are
accepted where the documents had them: `match.provider`, `agent.subagents.tools`, `agent.sandbox`.
"""

import ipaddress
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from core.config.gateways import LOCAL, fingerprint_of, is_name, url_problem

Positive = Annotated[int, Field(ge=1, le=1_000_000_000)]
NotNegative = Annotated[int, Field(ge=0, le=1_000_000_000)]
Folder = Annotated[str, Field(pattern=r"^(/|~(/|$))")]
NAME_EXPECTED: Final = f"expected a name of letters, digits, ., _ and -, at most 40 of them, other than {LOCAL}"
AgentId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]


def is_address(text: str) -> bool:
    """Whether a text is the address of an HTTP server."""
    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _address(value: str) -> str:
    if not is_address(value):
        raise ValueError("no address")
    return value


def is_ip(text: str) -> bool:
    """Whether a text is an IP address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


class Section(BaseModel):
    """Base of all sections; fields that are not ours are kept aside for `load` to name."""

    model_config = ConfigDict(
        extra="allow", frozen=True, defer_build=True, strict=True, alias_generator=to_camel, validate_by_name=False
    )


def _gateway_url(value: str) -> str:
    if problem := url_problem(value):
        raise PydanticCustomError("gateway_url", "{problem}", {"problem": problem})
    return value.rstrip("/")


def _gateway_name(value: str) -> str:
    if not is_name(value):
        raise PydanticCustomError("gateway_name", "{problem}", {"problem": NAME_EXPECTED})
    return value


def _fingerprint(value: object) -> object:
    if not isinstance(value, str):
        return value
    plain = fingerprint_of(value)
    if plain is None:
        problem = "expected the SHA-256 of the certificate: 64 hexadecimal digits"
        raise PydanticCustomError("fingerprint", "{problem}", {"problem": problem})
    return plain


GatewayName = Annotated[str, AfterValidator(_gateway_name)]


def _chat_type(value: object) -> object:
    return {"room": "channel", "dm": "direct"}.get(value, value) if isinstance(value, str) else value


def _model_choice(value: object) -> object:
    return {"primary": value} if isinstance(value, str) else value


def _secret(value: object) -> object:
    return {"literal": value} if isinstance(value, str) else value


class SecretRef(Section):
    """Where a key is: in the environment, in a file, or (unwisely) right here."""

    env: str | None = None
    file: str | None = None
    literal: str | None = Field(default=None, repr=False)


class PolicyMatch(Section):
    """`session.sendPolicy.rules[].match`."""

    channel: str | None = Field(default=None, validation_alias=AliasChoices("channel", "provider"))
    chat_type: Annotated[Literal["direct", "group", "channel"] | None, BeforeValidator(_chat_type)] = None
    key_prefix: str | None = None


class PolicyRule(Section):
    """`session.sendPolicy.rules[]`."""

    action: Literal["allow", "deny"]
    match: PolicyMatch = Field(default_factory=PolicyMatch)


class SendPolicySection(Section):
    """`session.sendPolicy`."""

    rules: list[PolicyRule] = []
    default: Literal["allow", "deny"] = "allow"


class SessionAgentToAgent(Section):
    """`session.agentToAgent`."""

    max_ping_pong_turns: Annotated[int, Field(ge=0, le=5)] = 5
    max_hops: Positive = 16


class SessionSection(Section):
    """`session`."""

    scope: Literal["per-sender", "global"] = "per-sender"
    send_policy: SendPolicySection = Field(default_factory=SendPolicySection)
    agent_to_agent: SessionAgentToAgent = Field(default_factory=SessionAgentToAgent)


class ModelChoice(Section):
    """`agents.defaults.model`: a name, or an object that names the primary one."""

    primary: str | None = None


class SubagentDefaults(Section):
    """`agents.defaults.subagents`."""

    max_concurrent: Positive = 8
    run_timeout_seconds: NotNegative = 0
    archive_after_minutes: NotNegative = 60
    max_spawn_depth: Annotated[int, Field(ge=1, le=5)] = 1
    max_children_per_agent: Positive = 5


class SandboxSection(Section):
    """`sandbox` of an agent or of the defaults."""

    mode: Literal["off", "non-main", "all"] | None = None
    session_tools_visibility: Literal["spawned", "all"] | None = None


class AgentDefaults(Section):
    """`agents.defaults`."""

    model: Annotated[ModelChoice, BeforeValidator(_model_choice)] = Field(default_factory=ModelChoice)
    thinking_default: Literal["off", "minimal", "low", "medium", "high"] | None = None
    max_concurrent: Positive = 4
    subagents: SubagentDefaults = Field(default_factory=SubagentDefaults)
    sandbox: SandboxSection = Field(default_factory=SandboxSection)
    workspace: Folder | None = None


class AgentSubagents(Section):
    """`agents.list[].subagents`."""

    allow_agents: list[str] = []


class ToolLists(Section):
    """An allow and a deny list."""

    allow: list[str] | None = None
    deny: list[str] = []


class AgentEntry(Section):
    """`agents.list[]`, or a value of `agents.entries`."""

    id: AgentId | None = None
    default: bool = False
    name: str | None = None
    model: Annotated[ModelChoice, BeforeValidator(_model_choice)] = Field(default_factory=ModelChoice)
    thinking_default: Literal["off", "minimal", "low", "medium", "high"] | None = None
    system_prompt: str | None = None
    sandbox: SandboxSection = Field(default_factory=SandboxSection)
    subagents: AgentSubagents = Field(default_factory=AgentSubagents)
    tools: ToolLists = Field(default_factory=ToolLists)
    workspace: Folder | None = None


class AgentsSection(Section):
    """`agents`."""

    defaults: AgentDefaults = Field(default_factory=AgentDefaults)
    listed: list[AgentEntry] = Field(default=[], alias="list")
    entries: dict[AgentId, AgentEntry] = {}


class SubagentTools(Section):
    """`tools.subagents`."""

    tools: ToolLists = Field(default_factory=ToolLists)


class SessionToolsSection(Section):
    """`tools.sessions`."""

    visibility: Literal["self", "tree", "agent", "all"] = "tree"


class AgentToAgentSection(Section):
    """`tools.agentToAgent`."""

    enabled: bool = False
    allow: list[str] | None = None


class ToolsSection(Section):
    """`tools`."""

    sessions: SessionToolsSection = Field(default_factory=SessionToolsSection)
    agent_to_agent: AgentToAgentSection = Field(default_factory=AgentToAgentSection)
    subagents: SubagentTools = Field(default_factory=SubagentTools)


class CostSection(Section):
    """`models.providers.*.models[].cost`: US dollars per million tokens."""

    input: float = Field(default=0.0, ge=0, strict=False)
    output: float = Field(default=0.0, ge=0, strict=False)
    cache_read: float = Field(default=0.0, ge=0, strict=False)
    cache_write: float = Field(default=0.0, ge=0, strict=False)


class ModelEntry(Section):
    """`models.providers.*.models[]`."""

    id: Annotated[str, Field(min_length=1)]
    context_window: Positive | None = None
    max_tokens: Positive | None = None
    input: list[str] | None = None
    cost: CostSection | None = None


class ProviderSection(Section):
    """`models.providers.*`."""

    base_url: Annotated[str, AfterValidator(_address)]
    api_key: Annotated[SecretRef | None, BeforeValidator(_secret)] = None
    api: Literal["openai-completions", "anthropic-messages"] = "openai-completions"
    models: list[ModelEntry] = []


class ModelsSection(Section):
    """`models`."""

    providers: dict[str, ProviderSection] = {}


class ConsoleSection(Section):
    """`console`: what the operator likes; which themes and actions there are is known to the console alone."""

    theme: str | None = None
    keymap: dict[str, str] = {}
    bell: bool = True


class TlsSection(Section):
    """`gateways.*.tls`."""

    ca: Folder | None = None
    fingerprint: Annotated[str | None, BeforeValidator(_fingerprint)] = None
    insecure: bool = False


class GatewaySection(Section):
    """`gateways.*`: a gateway elsewhere that the console and the commands may work on."""

    url: Annotated[str, AfterValidator(_gateway_url)]
    token: Annotated[SecretRef | None, BeforeValidator(_secret)] = None
    tls: TlsSection = Field(default_factory=TlsSection)


def _bind(value: str) -> str:
    if value not in {"loopback", "lan", "custom"} and not is_ip(value):
        problem = 'expected "loopback", "lan", or an IP address of this machine'
        raise PydanticCustomError("bind", "{problem}", {"problem": problem})
    return value


def _ip(value: str) -> str:
    if not is_ip(value):
        raise PydanticCustomError("ip", "{problem}", {"problem": "expected an IP address"})
    return value


def _web_origin(value: str) -> str:
    if not is_address(value) or urlsplit(value).path not in {"", "/"} or "@" in value or "?" in value or "#" in value:
        problem = "expected an origin such as https://gateway.example.com, without a path"
        raise PydanticCustomError("origin", "{problem}", {"problem": problem})
    return value.rstrip("/")


IpAddress = Annotated[str, AfterValidator(_ip)]
WebOrigin = Annotated[str, AfterValidator(_web_origin)]


class ServerAuthSection(Section):
    """`gateway.auth`."""

    mode: Literal["token"] = "token"
    token: Annotated[SecretRef | None, BeforeValidator(_secret)] = None
    read_only_token: Annotated[SecretRef | None, BeforeValidator(_secret)] = None


class ServerTlsSection(Section):
    """`gateway.tls`."""

    enabled: bool | None = None
    cert_path: Folder | None = None
    key_path: Folder | None = None


class ControlUiSection(Section):
    """`gateway.controlUi`."""

    allowed_origins: list[WebOrigin] = []


class ServerSection(Section):
    """`gateway`: where `switchboard serve` listens, and whom it lets in."""

    port: Annotated[int, Field(ge=1, le=65535)] = 18789
    bind: Annotated[str, AfterValidator(_bind)] = "loopback"
    custom_bind_host: IpAddress | None = None
    public_origin: WebOrigin | None = None
    auth: ServerAuthSection = Field(default_factory=ServerAuthSection)
    tls: ServerTlsSection = Field(default_factory=ServerTlsSection)
    control_ui: ControlUiSection = Field(default_factory=ControlUiSection)
    trusted_proxies: list[IpAddress] = []


class OlderAgentSection(Section):
    """`agent`: the older place of two settings."""

    subagents: SubagentTools = Field(default_factory=SubagentTools)
    sandbox: SandboxSection = Field(default_factory=SandboxSection)


class ConfigFile(Section):
    """The whole file."""

    session: SessionSection = Field(default_factory=SessionSection)
    agents: AgentsSection = Field(default_factory=AgentsSection)
    tools: ToolsSection = Field(default_factory=ToolsSection)
    models: ModelsSection = Field(default_factory=ModelsSection)
    console: ConsoleSection = Field(default_factory=ConsoleSection)
    gateway: ServerSection = Field(default_factory=ServerSection)
    gateways: dict[GatewayName, GatewaySection] = {}
    agent: OlderAgentSection | None = None


OTHERS_NAMES: frozenset[str] = frozenset({"models"})
"""Names in OpenClaw's file (`agents.defaults.models`) that look like a misspelling of one of ours and are none."""

CLOSED: tuple[type[Section], ...] = (PolicyMatch,)
"""Sections in which every unknown name is refused: a condition that is left out would make a rule apply to more."""


def fields(section: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a section by the names it knows, older spellings included."""
    found: dict[str, FieldInfo] = {}
    for name, info in section.model_fields.items():
        other = info.validation_alias
        names = other.choices if isinstance(other, AliasChoices) else [info.alias or to_camel(name)]
        found |= {str(each): info for each in names}
    return found
