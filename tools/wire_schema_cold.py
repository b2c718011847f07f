"""Writes messages whose speed does not count: one line per field.

`logstore.wire.message_reader` and `message_writer` have a function for each form of a field.

Runs of fixed fields, and the length that follows them, are read by one `struct.Struct`, as in
unrolled code: so both name the same field and byte in an error.
"""

from tools.wire_schema import Field, Layout, Shape
from tools.wire_schema_decode import bytes_min
from tools.wire_schema_encode import Encoders, Run, put_strings
from tools.wire_schema_text import Functions, indent, literal, snake


class ColdDecoders:
    def __init__(self, functions: Functions, shapes: dict[str, Shape]) -> None:
        self._functions = functions
        self._shapes = shapes

    def root(self, layout: Layout, version: int) -> str:
        """Returns the expression that makes the decoder of a whole message."""
        return f"decoder({layout.name}, {self._struct(layout, version)})"

    def _struct(self, layout: Layout, version: int) -> str:
        """Emit `(struct, MessageReader) -> None`; returns its name."""
        body = self._body(layout, version)

        def write(name: str) -> str:
            head = f"def {name}(o: {layout.name}, r: MessageReader) -> None:"
            return "\n".join([head, *indent(body or ["pass"])])

        return self._functions.add(f"read_{snake(layout.name)}", version, write)

    def _body(self, layout: Layout, version: int) -> list[str]:
        reads = _Reads(self._functions)
        present = {field.name for field in layout.untagged}
        for name, field in self._shapes[layout.name].fields.items():
            if name not in present:
                reads.lines.append(f"o.{name} = {literal(field.default)}")
        for field in layout.untagged:
            self._field(reads, field, version)
        if layout.tagged:
            reads.sized("", "known_tags", ["o", self._tags(layout, version)], "B")
        elif layout.flexible:
            reads.sized("", "tags", [], "B")
        reads.flush()
        return reads.lines

    def _field(self, reads: "_Reads", field: Field, version: int) -> None:
        target = f"o.{field.name} = "
        code = "B" if field.compact else "i"
        if field.array and field.layout is not None:
            read = self._struct(field.layout, version)
            arguments = [field.layout.name, read, str(bytes_min(field.layout))]
            reads.sized(target, _form(field, "array"), arguments, code)
        elif field.array and field.kind == "string":
            reads.sized(target, _form(field, "strings"), [], code)
        elif field.array:
            reads.sized(target, _form(field, "numbers"), [self._functions.fixed(field.kind)], code)
        elif field.layout is not None:
            arguments = [field.layout.name, self._struct(field.layout, version)]
            if field.nullable:
                reads.fixed("n", "b")
                reads.call(target, "nullable_struct", [*arguments, "n"])
            else:
                reads.call(target, "struct", arguments)
        elif field.kind in ("string", "bytes"):
            is_text = field.kind == "string"
            short = "h" if is_text and not field.compact else code
            reads.sized(target, _form(field, "string" if is_text else "blob"), [], short)
        else:
            reads.fixed(f"o.{field.name}", field.kind)

    def _tags(self, layout: Layout, version: int) -> str:
        """Emit `(struct, MessageReader, tag) -> whether it is known`; returns its name."""
        branches: list[str] = []
        for field in layout.tagged:
            reads = _Reads(self._functions)
            self._field(reads, field, version)
            reads.flush()
            word = "elif" if branches else "if"
            branches += [f"{word} tag == {field.tag}:", *indent(reads.lines)]

        def write(name: str) -> str:
            head = f"def {name}(o: {layout.name}, r: MessageReader, tag: int) -> bool:"
            rest = [*branches, "else:", "    return False", "return True"]
            return "\n".join([head, *indent(rest)])

        return self._functions.add(f"read_{snake(layout.name)}_tag", version, write)


class _Reads:
    """Lines of one function, and the fixed fields not yet read, which one Struct will cover."""

    def __init__(self, functions: Functions) -> None:
        self.lines: list[str] = []
        self._functions = functions
        self._pending: list[tuple[str, str]] = []

    def fixed(self, target: str, code: str) -> None:
        self._pending.append((target, code))

    def sized(self, target: str, method: str, arguments: list[str], code: str) -> None:
        """Call a method that needs a length, of `code`: read with the run before it, if any."""
        if self._pending:
            self.fixed("n", code)
            arguments = [*arguments, "n"]
        self.call(target, method, arguments)

    def call(self, target: str, method: str, arguments: list[str]) -> None:
        self.flush()
        self.lines.append(f"{target}r.{method}({', '.join(arguments)})")

    def flush(self) -> None:
        if self._pending:
            targets, codes = map(list, zip(*self._pending, strict=True))
            comma = "," if len(targets) == 1 else ""
            run = self._functions.run(codes)
            self.lines.append(f"{', '.join(targets)}{comma} = r.fixed({run})")
        self._pending = []


class ColdEncoders(Encoders):
    """As of hot messages, with calls in place of unrolled code for each field."""

    def _field(self, run: Run, field: Field, version: int) -> None:
        value = f"o.{field.name}"
        if field.array:
            put = f"put_{_form(field, 'array')}"
            self._call(run, f"{put}({value}, {run.out}, {self._items(field, version)})")
        elif field.layout is not None and field.nullable:
            many = self._many(field.layout, version)
            self._call(run, f"put_nullable_struct({value}, {run.out}, {many})")
        elif field.kind in ("string", "bytes"):
            self._call(run, f"put_{_form(field, field.kind)}({value}, {run.out})")
        else:
            super()._field(run, field, version)

    def _items(self, field: Field, version: int) -> str:
        if field.layout is not None:
            return self._many(field.layout, version)
        if field.kind == "string":
            return put_strings(field)
        return self._functions.numbers(field.kind)

    def _call(self, run: Run, line: str) -> None:
        run.flush()
        run.lines.append(line)


def _form(field: Field, kind: str) -> str:
    return ("compact_" if field.compact else "") + ("nullable_" if field.nullable else "") + kind
