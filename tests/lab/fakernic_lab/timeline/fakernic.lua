-- SPDX-License-Identifier: GPL-2.0-or-later
--
-- What happens on the bus of a fakernic, in a capture that its timeline has
-- made: wireshark -X lua_script:fakernic.lua trace.pcapng. An event is a line
-- of words: its kind, then name=value of each argument. Filters are as
-- 'fakernic.kind == "cqe" && fakernic.qpn == 17'.

local bus = Proto("fakernic", "fakernic bus event")

-- What record.c of the device calls its values and arguments; tests/timeline
-- compares.
local numbers = {
    "address", "arm", "armed", "attempt", "blocks", "ci", "code", "cookie",
    "count", "cqn", "data", "detail", "eqn", "error", "from", "high", "hits",
    "id", "index", "left", "len", "loopback", "low", "missed", "opcode", "peer",
    "pi", "psn", "qpn", "reasons", "roce", "rule", "sges", "solicited", "srqn",
    "stat", "status", "step", "syndrome", "tag", "ticks", "to", "type",
    "vector", "vendor_err",
}
local fields = {
    kind = ProtoField.string("fakernic.kind", "Kind"),
    action = ProtoField.string("fakernic.action", "Action of the fault rule"),
    point = ProtoField.string("fakernic.point", "Point of the fault rule"),
}

for _, name in ipairs(numbers) do
    fields[name] = ProtoField.uint64("fakernic." .. name, name,
                                     name == "address" and base.HEX or base.DEC)
end
for _, field in pairs(fields) do
    table.insert(bus.fields, field)
end

-- One name=value, or a word of another version's that is not known here.
local function add_word(tree, range, word)
    local name, value = word:match("^([%w_]+)=(.*)$")
    local field = name and fields[name]

    if field and field ~= fields.kind then
        if value:match("^%d+$") then
            tree:add(field, range, UInt64.new(value))
        else
            tree:add(field, range, value)
        end
    else
        tree:add(range, word)
    end
end

function bus.dissector(buffer, pinfo, tree)
    local text = buffer:raw()
    local kind = text:match("^%S+") or ""
    local root = tree:add(bus, buffer(), "fakernic: " .. text)

    pinfo.cols.protocol = "fakernic"
    pinfo.cols.info = text
    if kind == "" then
        return
    end
    root:add(fields.kind, buffer(0, #kind), kind)
    for first, word, last in text:sub(#kind + 1):gmatch("()(%S+)()") do
        add_word(root, buffer(#kind + first - 1, last - first), word)
    end
end

DissectorTable.get("wtap_encap"):add(wtap.USER0, bus)
