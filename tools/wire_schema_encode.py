"""Writes the encoding half of a generated message: straight-line Python per struct and version.

Small fields gather in a bytearray `out`. A struct that holds records takes and returns `out`, since
large records go to `parts` as a buffer of their own and a new bytearray gathers what follows.
In the code that comes out, `n` is a length or count as it stands on the wire.
"""

from tools.wire_schema import Field, Layout
from tools.wire_schema_text import Functions, indent, literal, snake

_PARTS = "out: bytearray, parts: list[Buffer]"


class Encoders:
    def __init__(self, functions: Functions, split_records: bool) -> None:
        self._functions = functions
        self._split_records = split_records
        """Records may come as a list of buffers (responses: a fetch crosses segments)."""

    def root(self, layout: Layout, version: int) -> str:
        """Emit `(struct, out, parts) -> out`, the same for every message; returns its name."""
        body = self._body(layout, version, "out")

        def write(name: str) -> str:
            head = f"def {name}(o: {layout.name}, {_PARTS}) -> bytearray:"
            return "\n".join([head, *indent([*_declared(body), *body, "return out"])])

        return self._functions.add(f"encode_{snake(layout.name)}", version, write)

    def arrays(self, layout: Layout, version: int) -> str:
        """Returns the `Array`s of a struct as text: of strings and of structs.

        None in a struct that has records itself: it is encoded whole, since what is encoded before
        and after its records does not lie in one buffer.
        """
        if any(field.kind == "records" for field in layout.untagged):
            return "()"
        made = [self._one_array(f, version) for f in layout.untagged if f.array]
        listed = [text for text in made if text]
        if layout.holds_records and len(listed) > 1:
            raise ValueError("records below one of several arrays are not supported")
        return f"({', '.join(listed)},)" if listed else "()"

    def _one_array(self, field: Field, version: int) -> str:
        if field.layout is None:
            strings = f'Array("{field.name}", {put_strings(field)})'
            return strings if field.kind == "string" else ""
        many = self._many(field.layout, version)
        below = self.arrays(field.layout, version)
        rest = [f", {below}"] if below != "()" or field.layout.holds_records else []
        rest += [", True"] if field.layout.holds_records else []
        return f'Array("{field.name}", {many}{"".join(rest)})'

    def _many(self, layout: Layout, version: int) -> str:
        body = self._body(layout, version, "out")
        records = layout.holds_records

        def write(name: str) -> str:
            parameters = _PARTS if records else "out: bytearray"
            return "\n".join(
                [
                    f"def {name}(items: list[{layout.name}], {parameters}) -> "
                    f"{'bytearray' if records else 'None'}:",
                    *indent(_declared(body)),
                    "    for o in items:",
                    *indent(body, 2),
                    *(["    return out"] if records else []),
                ]
            )

        return self._functions.add(f"encode_{snake(layout.name)}_list", version, write)

    def _body(self, layout: Layout, version: int, out: str) -> list[str]:
        run = Run(self._functions, out)
        for field in layout.untagged:
            self._field(run, field, version)
        if layout.tagged:
            run.flush()
            given = " or ".join(_is_given(field) for field in layout.tagged)
            tags = self._tags(layout, version)
            run.lines += [f"if {given}:", f"    {tags}(o, {out})", "else:", f"    {out}.append(0)"]
        elif layout.flexible:
            run.pad()
        run.flush()
        return run.lines

    def _field(self, run: "Run", field: Field, version: int) -> None:
        value = f"o.{field.name}"
        if field.array:
            self._array(run, field, value, version)
        elif field.kind == "struct":
            self._struct(run, field, value, version)
        elif field.kind == "records":
            self._records(run, field, value)
        elif field.kind in ("string", "bytes"):
            _unrolled_text(run, field, value)
        else:
            run.write(value, field.kind)

    def _array(self, run: "Run", field: Field, value: str, version: int) -> None:
        run.lines.append(f"v = {value}")
        run.length(field, "len(v)")
        if field.layout is not None:
            many = self._many(field.layout, version)
            records = field.layout.holds_records
            call = (
                f"{run.out} = {many}(v, {run.out}, parts)" if records else f"{many}(v, {run.out})"
            )
        elif field.kind == "string":
            call = f"{put_strings(field)}(v, {run.out})"
        elif field.kind == "16s":
            raise ValueError("arrays of uuids are not supported")  # no message has one
        else:
            call = f"{run.out} += encode_fixed_array(v, {self._functions.fixed(field.kind)})"
        run.lines += ["if v:", f"    {call}"]

    def _struct(self, run: "Run", field: Field, value: str, version: int) -> None:
        layout = field.layout
        assert layout is not None
        if layout.holds_records:
            raise ValueError("records in a struct outside an array are not supported")
        many = self._many(layout, version)
        if field.nullable:  # KIP-893: -1 is null, 1 is not
            run.lines.append(f"v = {value}")
            run.write("-1 if v is None else 1", "b")
            run.flush()
            run.lines += ["if v is not None:", f"    {many}([v], {run.out})"]
        else:
            run.flush()
            run.lines.append(f"{many}([{value}], {run.out})")

    def _records(self, run: "Run", field: Field, value: str) -> None:
        run.lines.append(f"v = {value}")
        size = (
            "(sum(map(len, v)) if type(v) is list else len(v))" if self._split_records else "len(v)"
        )
        run.length(field, size)
        lines = [
            "if n > INLINE_RECORDS_BYTES_MAX:",
            f"    parts.append({run.out})",
            "    parts.append(v)",
            f"    {run.out} = bytearray()",
            "else:",
            f"    {run.out} += v",
        ]
        if self._split_records:
            split = f"    {run.out} = put_records_parts(v, n, {run.out}, parts)"
            lines = ["if type(v) is list:", split, f"el{lines[0]}", *lines[1:]]
        run.lines += ["if v:", *indent(lines)]

    def _tags(self, layout: Layout, version: int) -> str:
        lines: list[str] = []
        for field in layout.tagged:
            value = Run(self._functions, "tag")
            self._field(value, field, version)
            value.flush()
            put = [
                "count += 1",
                "tag = bytearray()",
                *value.lines,
                f"tags += encode_tag({field.tag}, tag)",
            ]
            lines += [f"if {_is_given(field)}:", *indent(put)]
        lines = [*_declared(lines), "count = 0", "tags = bytearray()", *lines]
        lines += ["out += encode_varint(count)", "out += tags"]

        def write(name: str) -> str:
            head = f"def {name}(o: {layout.name}, out: bytearray) -> None:"
            return "\n".join([head, *indent(lines)])

        return self._functions.add(f"encode_{snake(layout.name)}_tags", version, write)


class Run:
    """Lines of one function, and the fixed fields not yet written, which one pack will cover."""

    def __init__(self, functions: Functions, out: str) -> None:
        self.lines: list[str] = []
        self.out = out
        self._functions = functions
        self._pending: list[tuple[str, str]] = []

    def write(self, value: str, code: str) -> None:
        self._pending.append((value, code))

    def pad(self) -> None:
        """A zero byte: an empty tag section."""
        self._pending.append(("", "x"))

    def length(self, field: Field, size: str) -> None:
        """Write the length or count of v, together with the run before it."""
        text = field.kind == "string" and not field.array
        null = 0 if field.compact else -1
        size = f"{size} + 1" if field.compact else size
        self.lines.append(
            f"n = {null} if v is None else {size}" if field.nullable else f"n = {size}"
        )
        if not field.compact:
            self.write("n", "h" if text else "i")
            self.flush()
            return
        helper = "encode_string_length" if text else "encode_varint"
        if not self._pending:
            short, long = f"{self.out}.append(n)", f"{self.out} += {helper}(n)"
            self.lines += ["if n < 128:", f"    {short}", "else:", f"    {long}"]
            return
        long = f"{self._pack(self._pending)} + {helper}(n)"
        short = self._pack([*self._pending, ("n", "B")])
        if field.kind == "records":  # mostly two bytes
            two = self._pack([*self._pending, ("n & 127 | 128", "B"), ("n >> 7", "B")])
            long = f"{two} if n < 16384 else {long}"
        self._pending = []
        self.lines.append(f"{self.out} += {short} if n < 128 else {long}")

    def flush(self) -> None:
        if not self._pending:
            return
        pending, self._pending = self._pending, []
        if [code for _, code in pending] == ["x"]:
            self.lines.append(f"{self.out}.append(0)")
        else:
            self.lines.append(f"{self.out} += {self._pack(pending)}")

    def _pack(self, pending: list[tuple[str, str]]) -> str:
        pack = self._functions.packer([code for _, code in pending])
        return f"{pack}({', '.join(value for value, code in pending if code != 'x')})"


def _unrolled_text(run: Run, field: Field, value: str) -> None:
    encode = ".encode()" if field.kind == "string" else ""
    if not field.nullable:
        run.lines += [f"v = {value}", "v = v.encode()"] if encode else [f"v = {value}"]
        run.length(field, "len(v)")
        run.lines.append(f"{run.out} += v")
        return
    run.lines.append(f"v = {value}")
    if encode:
        run.lines += ["if v is not None:", "    v = v.encode()"]
    run.length(field, "len(v)")
    run.lines += ["if v:", f"    {run.out} += v"]


def put_strings(field: Field) -> str:
    return f"put_{'compact_' if field.compact else ''}strings"


def _declared(lines: list[str]) -> list[str]:
    """Returns what declares the value `v`, whose type changes, for lines that set it."""
    return ["v: Any"] if any(line.lstrip().startswith("v = ") for line in lines) else []


def _is_given(field: Field) -> str:
    """Whether a tagged field differs from its default, which is never written (KIP-482)."""
    value = f"o.{field.name}"
    if field.default is None and field.layout is not None and not field.array:
        return f"({value} is not None and {value} != {field.layout.name}())"
    if field.default is None:
        return f"{value} is not None"
    if field.default == [] or field.default is False or field.default == 0:
        return value
    if field.default is True:
        return f"not {value}"
    return f"{value} != {literal(field.default)}"
