"""Which backend serves which model; the one for real models is only loaded when there is one."""

from core.agents.builtin import PACE_SECONDS, BuiltinBackend
from core.agents.port import Backend
from core.config.settings import ModelSettings


class AgentBackends:
    """The backends of a runtime; `pace` is seconds between two words of the builtin agent."""

    def __init__(self, pace: float = PACE_SECONDS) -> None:
        self._builtin = BuiltinBackend(pace)
        self._model: Backend | None = None

    def __call__(self, model: ModelSettings | None) -> Backend:
        """Return the backend for a model, None being the builtin agent."""
        if model is None:
            return self._builtin
        if self._model is None:
            from core.agents.model import ModelBackend

            self._model = ModelBackend()
        return self._model

    async def close(self) -> None:
        """Give connections free."""
        if self._model is not None:
            await self._model.close()
