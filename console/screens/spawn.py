"""The spawn dialog: a task, for whom, by which agent and model (W1)."""

from collections.abc import Sequence
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input, TextArea

from console.live.rows import Row
from console.operations import Order
from console.screens.dialog import Dialog, Refusal, form, seconds
from console.widgets.session_field import SessionField
from core.gateway import AgentInfo, ModelInfo


class SpawnDialog(Dialog[Order]):
    """Asks for a sub-agent's task.

    Args:
        rows: The sessions to choose the requester from.
        order: What to start with.
        refusal: Says why a session may not spawn.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+s", "start", "start", show=False, id="dialog.start")]

    def __init__(
        self,
        rows: Sequence[Row],
        order: Order,
        agents: Sequence[AgentInfo],
        models: Sequence[ModelInfo],
        refusal: Refusal,
    ) -> None:
        super().__init__()
        self._refusal = refusal
        given = {name: str(value) for name, value in order.arguments.items()}
        self._requester = SessionField(rows, order.acting_for or "", "main", id="for")
        self._work = TextArea(given.get("task", ""), show_line_numbers=False, compact=True)
        self._label = Input(given.get("label"), placeholder="none", compact=True)
        self._agent = Input(given.get("agentId"), placeholder="the session's own", compact=True)
        self._model = Input(given.get("model"), placeholder="the agent's own", compact=True)
        self._limit = Input(given.get("runTimeoutSeconds"), placeholder="no limit", type="number", compact=True)
        self._agents = ", ".join(agent.agent_id for agent in agents)
        self._models = ", ".join(model.ref for model in models)

    def compose(self) -> ComposeResult:
        fields = {
            "task: all that the sub-agent will know": self._work,
            "for: the session that gets the result": self._requester,
            "label": self._label,
            f"agent: {self._agents}": self._agent,
            f"model: {self._models}": self._model,
            "stop after, seconds": self._limit,
        }
        yield form("start a sub-agent", fields, "tab next field   ^s start   esc close")

    def on_mount(self) -> None:
        """Start with the task."""
        self._work.focus()

    @on(SessionField.Taken)
    def _taken(self) -> None:
        """Say at once why nothing can be started there."""
        self.complain(self._refusal(self._requester.value) or "")

    def action_start(self) -> None:
        """Close with the order, or say what is missing."""
        task = self._work.text
        if not task.strip():
            self.complain("the task is empty: say what the sub-agent is to do")
            self._work.focus()
            return
        refused = self._refusal(self._requester.value)
        if refused is not None:
            self.complain(refused)
            return
        arguments: dict[str, Any] = {"task": task}
        for name, field in (("label", self._label), ("agentId", self._agent), ("model", self._model)):
            if field.value.strip():
                arguments[name] = field.value.strip()
        if self._limit.value.strip():
            limit = seconds(self._limit.value)
            if limit is None:
                self.complain(f"the limit must be a number of seconds, not {self._limit.value}")
                return
            arguments["runTimeoutSeconds"] = limit
        self.dismiss(Order(arguments, self._requester.value or None))
