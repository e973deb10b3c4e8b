"""python -m clients.generate: writes the generated files of both clients anew."""

from clients.generate.files import generate

if __name__ == "__main__":
    for path, text in generate().items():
        path.write_text(text, encoding="utf-8")
        print(f"{path.name}: {len(text.splitlines())} lines")
