"""The session system: vocabulary, rules, store, runtime, agents and the session tools. Never imports `console`."""
