"""How hosts are named, and where their addresses lie."""

import pytest

from oh_daemon.common.hosts import Host, is_named, parse_host, reach_of, reach_of_url


@pytest.mark.parametrize(
    ("addresses", "reach"),
    [
        (["93.184.215.14"], "public"),
        (["2606:2800:21f:cb07::1"], "public"),
        ([], "public"),
        (["10.0.0.5", "93.184.215.14"], "private"),
        (["192.168.1.1", "100.64.0.1", "fd12::1", "203.0.113.1"], "private"),
        (["127.0.0.1"], "local"),
        (["93.184.215.14", "127.8.8.8"], "local"),
        (["0.0.0.0"], "local"),
        (["::1"], "local"),
        (["fe80::1%eth0"], "local"),
        (["169.254.169.254"], "local"),
        (["fd00:ec2::254"], "local"),
        (["100.100.100.200"], "local"),
        (["168.63.129.16"], "local"),
        (["224.0.0.1"], "local"),
        (["::ffff:127.0.0.1"], "local"),
        (["::7f00:1"], "local"),
        (["64:ff9b::a9fe:a9fe"], "local"),
        (["2002:7f00:1::"], "local"),
        (["::ffff:10.0.0.1"], "private"),
    ],
)
def test_the_nearest_address_counts_however_it_is_written(addresses: list[str], reach: str) -> None:
    assert reach_of(addresses) == reach


@pytest.mark.parametrize(
    ("url", "reach"),
    [
        ("http://localhost:8080/v1", "local"),
        ("http://ollama.localhost", "local"),
        ("http://[::1]:11434", "local"),
        ("http://127.0.0.2/v1", "local"),
        ("http://192.168.1.7:8000/v1", "private"),
        ("http://100.64.0.9:8000", "private"),
        ("http://gpu-box:8000/v1", "private"),
        ("http://gpu.local./v1", "private"),
        ("http://host.docker.internal:1234", "private"),
        ("https://api.example.com/v1", "public"),
        ("https://localhost.example.com", "public"),
        ("https://93.184.215.14/v1", "public"),
        ("http://", "public"),
        ("http://[::1", "public"),
    ],
)
def test_url_lies_where_its_host_says(url: str, reach: str) -> None:
    assert reach_of_url(url) == reach


@pytest.mark.parametrize(
    ("pattern", "host", "matches"),
    [
        ("example.com", Host("example.com", 443), True),
        ("Example.com", Host("example.com", 80), True),
        ("example.com", Host("example.com", 22), False),
        ("example.com:8080", Host("example.com", 8080), True),
        ("example.com:8080", Host("example.com", 443), False),
        ("example.com", Host("www.example.com", 443), False),
        ("example.com", Host("badexample.com", 443), False),
        ("*.example.com", Host("a.b.example.com", 443), True),
        ("*.example.com", Host("example.com", 443), False),
        ("*.example.com", Host("badexample.com", 443), False),
        ("10.0.0.5:8080", Host("10.0.0.5", 8080), True),
        ("[::1]:8080", Host("::1", 8080), True),
        ("[::1]", Host("::1", 443), True),
    ],
)
def test_a_pattern_means_a_host_with_its_port(pattern: str, host: Host, matches: bool) -> None:
    assert is_named(host, [pattern]) == matches


def test_a_host_is_named_in_one_way() -> None:
    assert parse_host("Example.COM.:443") == Host("example.com", 443)
    assert parse_host("[0:0::1]:80") == Host("::1", 80)
    assert str(Host("::1", 8080)) == "[::1]:8080"
    for wrong in ("example.com", ":80", "a:0", "a:65536", "a b:80", "a/b:80", "a:8x", "u@a:80"):
        with pytest.raises(ValueError, match=r"host|HOST"):
            parse_host(wrong)
