"""Turns the parsed file and the environment into the settings of the runtime (architecture#configuration)."""

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from core.config.names import dotted, unknown_names
from core.config.schema import (
    AgentEntry,
    ConfigFile,
    GatewaySection,
    SandboxSection,
    SecretRef,
    ServerSection,
    ToolLists,
    is_address,
)
from core.config.settings import (
    AgentSettings,
    ConsoleSettings,
    GatewaySettings,
    ModelApi,
    ModelSettings,
    Price,
    Secret,
    ServerSettings,
    Settings,
)
from core.model.errors import Invalid
from core.model.keys import quoted
from core.model.runs import BUILTIN_MODEL
from core.rules.limits import SpawnLimits, ToolFilter
from core.rules.policy import Match, Rule, SendPolicy
from core.rules.ruleset import AgentRules, RuleSet
from core.rules.visibility import AgentToAgent, VisibilityRules

_DEFAULT_URLS: Mapping[ModelApi, str] = {
    "openai-completions": "https://api.openai.com/v1",
    "anthropic-messages": "https://api.anthropic.com",
}


class Misfit(Exception):
    """A value of the file that contradicts the rest of it; `load` adds file and line.

    `path` is where the value stands, `problem` what is wrong with it, to be read after the path.
    """

    def __init__(self, path: tuple[str | int, ...], problem: str) -> None:
        super().__init__(problem)
        self.path = path
        self.problem = problem


class _Listed(NamedTuple):
    """An agent as the file has it, and where."""

    path: tuple[str | int, ...]
    entry: AgentEntry


def build(file: ConfigFile, environment: Mapping[str, str], *, notices: list[str], config: Path | None) -> Settings:
    """Combine file and environment; the environment wins.

    `Misfit`: two settings of the file contradict each other, or one names what does not exist. `Invalid`: the
    environment cannot be meant.
    """
    origins: list[tuple[str, str, str]] = []
    models = _models(file, notices)
    default_model = file.agents.defaults.model.primary
    if default_model is not None:
        origins.append(("agents.defaults.model.primary", default_model, str(config)))
    from_environment = _environment_model(environment, models)
    if from_environment is not None:
        models[from_environment.ref] = from_environment
        default_model = from_environment.ref
        origins.append(("model", default_model, "environment SWITCHBOARD_MODEL…"))
    elif environment.get("SWITCHBOARD_MODEL", "").strip() == BUILTIN_MODEL:
        default_model = BUILTIN_MODEL
        origins.append(("model", default_model, "environment SWITCHBOARD_MODEL"))
    entries = _agent_entries(file)
    agents = {agent_id: _agent(agent_id, found.entry, file, default_model) for agent_id, found in entries.items()}
    for agent_id, found in entries.items():
        _check_model(agents[agent_id].model, found, models)
    notices += unknown_names(file, [(dotted(found.path), found.entry) for found in entries.values()], list(entries))
    return Settings(
        rules=_rules(file, entries),
        agents=agents,
        models=models,
        max_concurrent=file.agents.defaults.max_concurrent,
        subagent_max_concurrent=file.agents.defaults.subagents.max_concurrent,
        subagent_timeout_ms=file.agents.defaults.subagents.run_timeout_seconds * 1000,
        archive_after_ms=file.agents.defaults.subagents.archive_after_minutes * 60_000,
        max_ping_pong_turns=file.session.agent_to_agent.max_ping_pong_turns,
        max_hops=file.session.agent_to_agent.max_hops,
        server=_server(file.gateway, notices),
        console=ConsoleSettings(file.console.theme, file.console.keymap, file.console.bell),
        gateways={name: gateway(name, section, notices) for name, section in file.gateways.items()},
        notices=tuple(notices),
        origins=tuple(origins),
    )


def _agent_entries(file: ConfigFile) -> dict[str, _Listed]:
    """Return the agents by id, in lower case; without any there is one called main."""
    entries: dict[str, _Listed] = {}
    named = [(entry.id, _Listed(("agents", "list", n), entry)) for n, entry in enumerate(file.agents.listed)]
    named += [(key, _Listed(("agents", "entries", key), entry)) for key, entry in file.agents.entries.items()]
    for agent_id, found in named:
        if agent_id is None:
            raise Misfit((*found.path, "id"), "is missing: give the agent an id")
        if agent_id.lower() in entries:
            raise Misfit(found.path, f"is a second agent {quoted(agent_id)}: give each agent its own id")
        entries[agent_id.lower()] = found
    return entries or {"main": _Listed(("agents",), AgentEntry())}


def _check_model(ref: str, found: _Listed, models: Mapping[str, ModelSettings]) -> None:
    known = [*sorted(models), BUILTIN_MODEL]
    if ref not in known:
        nearest = difflib.get_close_matches(ref, known, 1)
        hint = f"; did you mean {quoted(nearest[0])}?" if nearest else f": use {', '.join(known)}"
        path = (*found.path, "model") if found.entry.model.primary else ("agents", "defaults", "model")
        raise Misfit(path, f"is {quoted(ref)}, which no provider has{hint}")


def _agent(agent_id: str, entry: AgentEntry, file: ConfigFile, default_model: str | None) -> AgentSettings:
    folder = entry.workspace or file.agents.defaults.workspace
    return AgentSettings(
        agent_id,
        model=entry.model.primary or default_model or BUILTIN_MODEL,
        name=entry.name,
        thinking=entry.thinking_default or file.agents.defaults.thinking_default,
        system_prompt=entry.system_prompt,
        workspace=Path(folder).expanduser() if folder else None,
    )


def _rules(file: ConfigFile, entries: dict[str, _Listed]) -> RuleSet:
    defaults = file.agents.defaults
    older = file.agent
    sandbox = defaults.sandbox.session_tools_visibility or (older.sandbox.session_tools_visibility if older else None)
    tools = file.tools.subagents.tools
    if older is not None and tools.allow is None and not tools.deny:
        tools = older.subagents.tools
    peers = file.tools.agent_to_agent
    return RuleSet(
        agents={agent_id: _agent_rules(agent_id, found.entry, defaults.sandbox) for agent_id, found in entries.items()},
        default_agent=next(
            (agent_id for agent_id, found in entries.items() if found.entry.default), next(iter(entries))
        ),
        global_scope=file.session.scope == "global",
        send_policy=_send_policy(file),
        visibility=VisibilityRules(
            file.tools.sessions.visibility,
            AgentToAgent(peers.enabled, None if peers.allow is None else tuple(name.lower() for name in peers.allow)),
            sandbox or "spawned",
        ),
        subagent_tools=_filter(tools),
        spawning=SpawnLimits(defaults.subagents.max_spawn_depth, defaults.subagents.max_children_per_agent),
    )


def _agent_rules(agent_id: str, entry: AgentEntry, defaults: SandboxSection) -> AgentRules:
    mode = entry.sandbox.mode or defaults.mode or "off"
    return AgentRules(
        agent_id,
        entry.name,
        sandboxed=mode != "off",
        allow_agents=tuple(pattern.lower() for pattern in entry.subagents.allow_agents),
        tools=_filter(entry.tools),
        sandbox=entry.sandbox.session_tools_visibility,
    )


def _filter(lists: ToolLists) -> ToolFilter:
    return ToolFilter(None if lists.allow is None else tuple(lists.allow), tuple(lists.deny))


def _send_policy(file: ConfigFile) -> SendPolicy:
    section = file.session.send_policy
    rules = [
        Rule(
            rule.action,
            Match(
                rule.match.channel.lower() if rule.match.channel else None, rule.match.chat_type, rule.match.key_prefix
            ),
        )
        for rule in section.rules
    ]
    return SendPolicy(tuple(rules), section.default)


def _models(file: ConfigFile, notices: list[str]) -> dict[str, ModelSettings]:
    models: dict[str, ModelSettings] = {}
    for name, provider in file.models.providers.items():
        key = _secret(provider.api_key, ("models", "providers", name, "apiKey"), "the model's key", notices)
        for entry in provider.models:
            cost = entry.cost
            price = Price(cost.input, cost.output, cost.cache_read, cost.cache_write) if cost else None
            model = ModelSettings(
                name,
                entry.id,
                provider.api,
                _base_url(provider.base_url, provider.api),
                key,
                entry.context_window,
                entry.max_tokens,
                price,
                "image" in entry.input if entry.input is not None else None,
            )
            models[model.ref] = model
    return models


def gateway(name: str, section: GatewaySection, notices: list[str]) -> GatewaySettings:
    """Return a gateway elsewhere; `Misfit` when its token is given in more than one way."""
    tls = section.tls
    return GatewaySettings(
        name,
        section.url,
        _secret(section.token, ("gateways", name, "token"), "the gateway's token", notices),
        Path(tls.ca).expanduser() if tls.ca else None,
        tls.fingerprint,
        tls.insecure,
    )


def _secret(ref: SecretRef | None, path: tuple[str, ...], what: str, notices: list[str]) -> Secret | None:
    if ref is None:
        return None
    if sum(map(bool, (ref.env, ref.file, ref.literal))) != 1:
        raise Misfit(path, 'must be one of {env: "NAME"}, {file: "PATH"} or text')
    if ref.env:
        return Secret("env", ref.env, what)
    if ref.file:
        return Secret("file", ref.file, what)
    literal = ref.literal or ""
    if literal.startswith("${") and literal.endswith("}"):
        return Secret("env", literal[2:-1], what)
    holds = "the key" if path[-1] == "apiKey" else "the token"
    notices.append(f'{".".join(path)} holds {holds} itself: {{env: "NAME"}} or {{file: "PATH"}} is safer')
    return Secret("literal", literal, what)


def _server(section: ServerSection, notices: list[str]) -> ServerSettings:
    auth, tls = section.auth, section.tls
    if section.bind == "custom" and section.custom_bind_host is None:
        raise Misfit(("gateway", "bind"), 'is "custom": give the address as gateway.customBindHost')
    named = {"loopback": "127.0.0.1", "lan": "0.0.0.0", "custom": section.custom_bind_host or ""}  # noqa: S104 - asked for
    is_encrypted = tls.enabled if tls.enabled is not None else tls.cert_path is not None
    if is_encrypted and (tls.cert_path is None or tls.key_path is None):
        raise Misfit(("gateway", "tls"), "needs certPath and keyPath, the files of the certificate and of its key")
    certificate, key = (tls.cert_path, tls.key_path) if is_encrypted else (None, None)
    return ServerSettings(
        named.get(section.bind, section.bind),
        section.port,
        section.public_origin,
        tuple(section.control_ui.allowed_origins),
        _secret(auth.token, ("gateway", "auth", "token"), "the gateway's token", notices),
        _secret(auth.read_only_token, ("gateway", "auth", "readOnlyToken"), "the read-only token", notices),
        Path(certificate).expanduser() if certificate else None,
        Path(key).expanduser() if key else None,
        tuple(section.trusted_proxies),
    )


def _environment_model(environment: Mapping[str, str], models: Mapping[str, ModelSettings]) -> ModelSettings | None:
    """Return the model that the environment asks for, None when it asks for none."""
    url = environment.get("SWITCHBOARD_MODEL_URL", "").strip()
    name = environment.get("SWITCHBOARD_MODEL", "").strip()
    if url:
        return _model_at(url, name, environment)
    if name == BUILTIN_MODEL:
        return None
    if not name or name in models:
        return models.get(name)
    provider, _, model_id = name.partition("/")
    if provider not in {"openai", "anthropic"} or not model_id:
        only_anthropic = bool(environment.get("ANTHROPIC_API_KEY")) and not environment.get("OPENAI_API_KEY")
        provider, model_id = "anthropic" if name.startswith("claude") or only_anthropic else "openai", name
    api: ModelApi = "anthropic-messages" if provider == "anthropic" else "openai-completions"
    variables = ("SWITCHBOARD_MODEL_KEY", f"{provider.upper()}_API_KEY")
    variable = next((variable for variable in variables if environment.get(variable)), variables[1])
    return ModelSettings(provider, model_id, api, _DEFAULT_URLS[api], Secret("env", variable))


def _model_at(url: str, name: str, environment: Mapping[str, str]) -> ModelSettings:
    """Return the model at an address; a provider's own key is never sent to another address."""
    if not is_address(url):
        raise Invalid("SWITCHBOARD_MODEL_URL must be an address that starts with http:// or https://")
    api: ModelApi = "anthropic-messages" if "anthropic" in urlsplit(url).netloc else "openai-completions"
    key = Secret("env", "SWITCHBOARD_MODEL_KEY") if environment.get("SWITCHBOARD_MODEL_KEY") else None
    return ModelSettings("env", name, api, _base_url(url, api), key)


def _base_url(url: str, api: ModelApi) -> str:
    """Complete an address without a path: OpenAI-compatible endpoints live under /v1."""
    bare = url.rstrip("/")
    if api == "openai-completions" and not urlsplit(bare).path:
        return bare + "/v1"
    return bare.removesuffix("/v1") if api == "anthropic-messages" else bare
