"""smolagents' executor for E2B, as its agents use it: code with and without state, tools, final answers, pictures."""

import pytest
from PIL import Image
from smolagents import CodeAgent, FinalAnswerTool, tool
from smolagents.models import ChatMessage, MessageRole, Model
from smolagents.monitoring import AgentLogger, LogLevel
from smolagents.remote_executors import E2BExecutor
from smolagents.utils import AgentError


@pytest.fixture
def executor(server):
    one = E2BExecutor([], AgentLogger(level=LogLevel.OFF))
    yield one
    one.cleanup()


def test_code_keeps_its_state(executor):
    assert executor("x = 20\nprint('set')").logs.strip() == "set"
    said = executor("print('more')\nx * 2 + 2")
    assert (said.output, said.logs.strip(), said.is_final_answer) == ("42", "more", False)


def test_variables_are_sent(executor):
    executor.send_variables({"numbers": [1, 2, 3], "name": "ä", "nested": {"a": (1, 2)}})
    assert executor("print(sum(numbers), name, nested['a'])").logs.strip() == "6 ä (1, 2)"


def test_errors_carry_the_traceback(executor):
    with pytest.raises(AgentError) as failed:
        executor("print('before')\n1 / 0")
    assert all(word in str(failed.value) for word in ["before", "ZeroDivisionError", "division by zero"])


def test_final_answers_of_many_kinds(executor):
    executor.send_tools({"final_answer": FinalAnswerTool()})
    done = executor("final_answer({'sum': 3, 'pair': (1, 2), 'bytes': b'x'})")
    assert done.is_final_answer and done.output == {"sum": 3, "pair": (1, 2), "bytes": b"x"}
    long = executor("final_answer('y' * 200_000)")
    assert long.output == "y" * 200_000
    drawn = executor("from PIL import Image\nfinal_answer(Image.effect_noise((200, 200), 90))")
    assert isinstance(drawn.output, Image.Image) and drawn.output.size == (200, 200)


def test_a_picture_is_a_result(executor):
    drawn = executor("from PIL import Image\nImage.new('RGB', (8, 4), 'red')")
    assert isinstance(drawn.output, Image.Image) and drawn.output.size == (8, 4)


class Scripted(Model):
    """Says what it was told to, one message after the other."""

    def __init__(self, messages: list[str]):
        super().__init__(model_id="scripted")
        self.messages = iter(messages)

    def generate(self, messages, **kwargs) -> ChatMessage:
        return ChatMessage(role=MessageRole.ASSISTANT, content=next(self.messages))


@tool
def doubled(number: int) -> int:
    """Doubles a number.

    Args:
        number: The number.
    """
    return number * 2


def test_an_agent_runs_to_its_answer(server):
    steps = ["Thought: first.\n<code>\nx = doubled(10)\nprint(x)\n</code>", "<code>\nfinal_answer(doubled(x) + 2)\n</code>"]
    model = Scripted(steps)
    with CodeAgent(tools=[doubled], model=model, executor_type="e2b", verbosity_level=LogLevel.OFF) as agent:
        assert agent.run("Compute.") == 42
