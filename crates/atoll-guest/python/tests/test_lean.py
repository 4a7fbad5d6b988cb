"""The lean import of IPython: short at the start, whole when somebody asks."""

from __future__ import annotations

from harness import Kernel


def test_what_a_context_does_not_load(kernel: Kernel) -> None:
    heavy = "{'prompt_toolkit', 'jedi', 'IPython.terminal', 'matplotlib_inline'}"
    assert kernel.run(f"import sys; {heavy} & set(sys.modules)").text == "set()"


def test_ipython_is_whole(kernel: Kernel) -> None:
    code = (
        "import IPython, traitlets, traitlets.config\n"
        "from IPython import display, embed, start_ipython\n"
        "from IPython.core.display import HTML\n"
        "from traitlets.config import Application, Config\n"
        "from traitlets import Int\n"
        "import IPython.terminal.embed\n"
        "IPython.version_info[0] >= 8, IPython.__version__[0] in '89', IPython.InteractiveShell"
    )
    assert kernel.run(code).text == "(True, True, IPython.core.interactiveshell.InteractiveShell)"


def test_jedi_and_prompt_toolkit_can_be_imported(kernel: Kernel) -> None:
    assert kernel.run("import jedi, prompt_toolkit; jedi.__name__, prompt_toolkit.__name__").error is None


def test_star_import_and_unknown_names(kernel: Kernel) -> None:
    assert kernel.run("from traitlets.config import *; Application.__name__").text == "'Application'"
    assert kernel.run("import IPython; IPython.no_such_name").error["name"] == "AttributeError"
