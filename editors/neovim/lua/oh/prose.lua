--- Colours what the agent wrote as Markdown, with languages of its code, each message by itself.
--- All else, such as commands and paths, is shown as it is: no character of it is concealed.
local M = {}

--- Only marks around text are concealed: links say where they lead, and `a[1]` stays whole.
local INLINE = [[
(code_span) @markup.raw
(emphasis) @markup.italic
(strong_emphasis) @markup.strong
(strikethrough) @markup.strikethrough
[(link_text) (link_label)] @markup.link.label
[(link_destination) (uri_autolink)] @markup.link.url
([(code_span_delimiter) (emphasis_delimiter)] @conceal (#set! conceal ""))
]]

--- Colour a buffer from now on; without the parser for Markdown it stays plain.
---@param buf integer
function M.start(buf)
  local is_there, parser = pcall(vim.treesitter.get_parser, buf, "markdown")
  if is_there and parser then
    local queries = { markdown_inline = INLINE }
    pcall(vim.treesitter.highlighter.new, parser, { queries = queries })
  end
end

--- Rows of a buffer, of which the last is not included.
---@alias oh.Rows [integer, integer]

--- Tell which rows are Markdown; each range of rows is a text of its own.
---@param buf integer
---@param ranges oh.Rows[]
function M.set(buf, ranges)
  local highlighter = vim.treesitter.highlighter.active[buf]
  if highlighter then
    highlighter.tree:set_included_regions(vim.tbl_map(function(rows)
      return { { rows[1], 0, rows[2], 0 } }
    end, ranges))
  end
end

return M
