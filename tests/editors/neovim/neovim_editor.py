"""A real Neovim with the plugin from this repository, driven over its own RPC.

`wait` runs Neovim's event loop until something holds, so no test sleeps.
"""

import contextlib
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import forked_daemons
import psutil
import pynvim
from processes import argv

Json = dict[str, Any]
ROOT = Path(__file__).parents[3]
PLUGIN = ROOT / "editors/neovim"
DAEMON = [sys.executable, "-m", "oh_daemon", "--stdio"]
QUICK_START = ["--clean", "-n", "--cmd", "let g:loaded_python3_provider = 0"]
"""Or else the first Python file has Neovim start Python, to see whether it has a library."""
_DEADLINE_S = 180

# Keeps everything that `User Oh*` events say, for the tests.
_RECORD_EVENTS = """
_G.events = {}
vim.api.nvim_create_autocmd("User", { pattern = "Oh*", callback = function(args)
  table.insert(_G.events, { name = args.match, data = args.data })
end })
"""
_DELAY = """
local wanted = ...
local client = vim.lsp.get_clients({ name = "oh" })[1]
local request = client.request
client.request = function(self, method, params, on_answer, ...)
  if method ~= wanted then
    return request(self, method, params, on_answer, ...)
  end
  client.request = request
  return request(self, method, params, function(...)
    local answer = { ... }
    _G.arrive = function() on_answer(unpack(answer)) end
  end, ...)
end
"""
_FLOAT = """(function()
  for _, win in ipairs(vim.api.nvim_list_wins()) do
    if vim.api.nvim_win_get_config(win).relative ~= "" then
      local buf = vim.api.nvim_win_get_buf(win)
      return table.concat(vim.api.nvim_buf_get_lines(buf, 0, -1, false), "\\n")
    end
  end
end)()"""
_SCREEN = """
vim.cmd("redraw!")
local rows = {}
for row = 1, vim.o.lines do
  local cells = {}
  for column = 1, vim.o.columns do
    table.insert(cells, vim.fn.screenstring(row, column))
  end
  table.insert(rows, (table.concat(cells):gsub("%s+$", "")))
end
return table.concat(rows, "\\n")
"""


def find_nvim() -> str | None:
    """Return the Neovim to test: `OH_TEST_NVIM`, that of the tests' environment, or any other."""
    neovim = Path(sys.executable).with_name("nvim")
    return os.environ.get("OH_TEST_NVIM") or shutil.which(str(neovim)) or shutil.which("nvim")


class Neovim:
    """One editor, which ends with its `with` block."""

    def __init__(self, project: Path, environment: Mapping[str, str], options: Json) -> None:
        nvim = find_nvim()
        assert nvim is not None
        variables = [f"{name}={value}" for name, value in environment.items()]
        arguments = ["--embed", *QUICK_START, "--headless", "--cmd", f"set rtp^={PLUGIN}"]
        argv = ["env", "-u", "NVIM", "-C", str(project), *variables, nvim, *arguments]
        self.nvim = pynvim.attach("child", argv=argv)
        self.pid = int(self.nvim.call("getpid"))
        self.project = project
        self.is_open = True
        self.set(lines=30, columns=100, swapfile=False)
        self.lua(_RECORD_EVENTS)
        self.options(**options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.quit()

    def options(self, **options: Any) -> None:
        """Lay these over `vim.g.oh`."""
        actual_options = self.nvim.vars.get("oh", {"cmd": DAEMON})
        self.nvim.vars["oh"] = {**actual_options, **options}

    def set(self, **options: Any) -> None:
        for name, value in options.items():
            self.nvim.options[name] = value

    def lua(self, code: str, *args: Any) -> Any:
        return self.nvim.exec_lua(code, *args)

    def command(self, line: str) -> None:
        self.nvim.command(line)

    def try_command(self, line: str) -> None:
        """Run a command that may show an error, which is then in `messages`."""
        self.lua("pcall(vim.cmd, ...)", line)

    def edit(self, path: Path) -> Any:
        """Open a file and return its buffer."""
        self.nvim.command(f"edit {path}")
        return self.nvim.current.buffer

    def type(self, keys: str) -> None:
        """Press keys as a user would. Neovim takes them before the next request."""
        self.nvim.input(keys)

    def wait(self, expression: str, *args: Any, within_s: float = _DEADLINE_S) -> Any:
        """Wait until a Lua expression is true; return its value. The arguments are its `...`."""
        # A condition slower than the interval would keep `vim.wait` from seeing its own deadline.
        code = f"""
        local args, value, deadline = {{ ... }}, nil, vim.uv.hrtime() + {within_s} * 1e9
        local function holds(...) return {expression} end
        vim.wait({int(within_s * 1000)}, function()
          value = holds(unpack(args))
          return value or vim.uv.hrtime() > deadline
        end, 20)
        return value
        """
        value = self.lua(code, *args)
        assert value, f"never held: {expression} {args}\n{self.chat()}\n{self.messages()}"
        return value

    def delay(self, method: str) -> None:
        """Hold back the daemon's next answer to this method until `_G.arrive` is called."""
        self.lua(_DELAY, method)

    def wait_for_chat(self, text: str) -> None:
        """Wait until the chat shows this text somewhere."""
        find = "_G.chat_text and _G.chat_text():find(..., 1, true)"
        self.chat()
        self.wait(find, text)

    def wait_for_float(self) -> str:
        """Wait for a floating window, and return its text."""
        return str(self.wait(_FLOAT))

    def wait_for_event(self, name: str, *, nth: int = 1) -> Json:
        """Wait for the nth `User Oh{name}`, and return its data."""
        count = """(function(name, nth)
          local found = vim.tbl_filter(function(e) return e.name == name end, _G.events)
          return found[nth]
        end)(...)"""
        event: Json = self.wait(count, "Oh" + name, nth)
        return event.get("data", {})

    def wait_for_status(self, status: str) -> None:
        self.wait("(require('oh').status_table() or {}).status == ...", status)

    def chat(self) -> str:
        """Return all lines of the chat of the current conversation."""
        return self.lua("""
        function _G.chat_text()
          local conversation = require("oh").conversation()
          if not conversation then return "" end
          local buf = require("oh.chat").of(conversation).buf
          return table.concat(vim.api.nvim_buf_get_lines(buf, 0, -1, false), "\\n")
        end
        return _G.chat_text()
        """)

    def draft(self) -> list[str]:
        """Return the lines of the message that is being written."""
        return self.lua("""
        local buf = require("oh.input").buffer(require("oh.daemon").root())
        return vim.api.nvim_buf_get_lines(buf, 0, -1, false)
        """)

    def messages(self) -> str:
        return self.lua("return vim.api.nvim_exec2('messages', { output = true }).output")

    def wait_for_message(self, text: str) -> None:
        """Wait until Neovim has shown this text as a message."""
        self.wait(
            "vim.api.nvim_exec2('messages', { output = true }).output:find(..., 1, true)", text
        )

    def focus(self, filetype: str) -> None:
        """Go to one of our windows, for instance that of `oh-chat`."""
        self.lua("vim.api.nvim_set_current_win(require('oh.windows').window_of(...))", filetype)

    def screen(self) -> str:
        """Return the screen as text."""
        return self.lua(_SCREEN)

    def windows(self) -> list[str]:
        """Return the file type, or else the name, of each window of this tab page, sorted."""
        return self.lua("""
        local found = vim.tbl_map(function(win)
          local buf = vim.api.nvim_win_get_buf(win)
          local name = vim.fs.basename(vim.api.nvim_buf_get_name(buf))
          return vim.bo[buf].filetype:find("^oh") and vim.bo[buf].filetype or name
        end, vim.api.nvim_tabpage_list_wins(0))
        table.sort(found)
        return found
        """)

    def processes(self) -> list[psutil.Process]:
        """Return all processes that this editor has started, directly or not."""
        children = psutil.Process(self.pid).children(recursive=True)
        daemons = [daemon for each in children if (daemon := forked_daemons.daemon_of(each))]
        return children + [p for each in daemons for p in (each, *each.children(recursive=True))]

    def daemon(self) -> psutil.Process:
        # Only Neovim's own children: for a moment, a child of the daemon looks like the daemon.
        children = psutil.Process(self.pid).children()
        real = [p for p in children if "oh_daemon" in argv(p)]
        [daemon] = real + [p for each in children if (p := forked_daemons.daemon_of(each))]
        return daemon

    def quit(self) -> None:
        """Leave with `:qa!`; may be called twice."""
        if self.is_open:
            self.is_open = False
            with contextlib.suppress(OSError, EOFError):
                self.nvim.command("qa!")
            self.nvim.close()
