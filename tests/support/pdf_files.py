"""PDFs that tests write: a line of text on each page."""

import zlib


def pdf(*pages: str, stream: bytes | None = None) -> bytes:
    """Return a PDF with a line of text on each page, or with this compressed content."""
    n_pages = len(pages)
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(n_pages))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {n_pages} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for n, words in enumerate(pages):
        content = zlib.compress(stream or f"BT /F1 12 Tf 72 720 Td ({words}) Tj ET".encode())
        page = f"<< /Type /Page /Parent 2 0 R /Contents {5 + 2 * n} 0 R /Resources "
        objects.append(f"{page}<< /Font << /F1 3 0 R >> >> >>".encode())
        head = f"<< /Length {len(content)} /Filter /FlateDecode >>\nstream\n".encode()
        objects.append(head + content + b"\nendstream")
    data, places = b"%PDF-1.7\n", list[int]()
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    head = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    trailer = b"trailer << /Size %d /Root 1 0 R >>\n" % (len(objects) + 1)
    return data + head + table + trailer + b"startxref\n%d\n%%%%EOF" % len(data)
