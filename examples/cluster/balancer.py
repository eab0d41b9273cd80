"""Configurations for the load balancer that is installed: Caddy, HAProxy or nginx.

Each asks `/readyz` or notices a 503, sends new requests elsewhere, and passes event streams on without a buffer.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

CADDY = """{{
	admin off
	auto_https off
}}

http://:{port} {{
	bind 127.0.0.1
	reverse_proxy {servers} {{
		lb_policy round_robin
		lb_try_duration 5s
		health_uri /readyz
		health_interval 1s
		health_timeout 2s
		flush_interval -1
	}}
}}
"""
HAPROXY = """defaults
    mode http
    timeout connect 2s
    timeout http-request 10s
    timeout client 1h
    timeout server 1h
    option redispatch
    retries 3

frontend toolyard
    bind 127.0.0.1:{port}
    default_backend replicas

backend replicas
    balance roundrobin
    option httpchk GET /readyz
    http-check expect status 200
    default-server check inter 1s fall 2 rise 1
{servers}
"""
NGINX = """daemon off;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream replicas {{
{servers}
        keepalive 16;
    }}
    server {{
        listen 127.0.0.1:{port};
        client_max_body_size 16m;
        location / {{
            proxy_pass http://replicas;
            proxy_http_version 1.1;
            proxy_set_header Host $http_host;
            proxy_set_header Connection "";
            proxy_buffering off;
            proxy_read_timeout 1h;
            proxy_next_upstream error timeout http_503;
        }}
    }}
}}
"""


@dataclass(frozen=True, slots=True)
class Balancer:
    """A program that spreads requests, the name of its configuration file, and how it is started."""

    program: str
    file_name: str
    build_config: Callable[[int, Sequence[int], Path], str]
    arguments: Callable[[Path], list[str]]


def build_caddy(port: int, replica_ports: Sequence[int], folder: Path) -> str:
    return CADDY.format(port=port, servers=" ".join(f"127.0.0.1:{replica}" for replica in replica_ports))


def build_haproxy(port: int, replica_ports: Sequence[int], folder: Path) -> str:
    servers = "\n".join(f"    server replica-{replica} 127.0.0.1:{replica}" for replica in replica_ports)
    return HAPROXY.format(port=port, servers=servers)


def build_nginx(port: int, replica_ports: Sequence[int], folder: Path) -> str:
    servers = "\n".join(f"        server 127.0.0.1:{replica} max_fails=1 fail_timeout=2s;" for replica in replica_ports)
    return NGINX.format(port=port, servers=servers, folder=folder)


BALANCERS = (
    Balancer("caddy", "Caddyfile", build_caddy, lambda file: ["run", "--adapter", "caddyfile", "--config", str(file)]),
    Balancer("haproxy", "haproxy.cfg", build_haproxy, lambda file: ["-db", "-f", str(file)]),
    Balancer("nginx", "nginx.conf", build_nginx, lambda file: ["-c", str(file), "-p", str(file.parent)]),
)


def write_config(folder: Path, port: int, replica_ports: Sequence[int]) -> list[str]:
    """Write the configuration of the first balancer that is installed. Return its command; empty if there is none."""
    for balancer in BALANCERS:
        if program := shutil.which(balancer.program):
            file = folder / balancer.file_name
            file.write_text(balancer.build_config(port, replica_ports, folder), "utf-8")
            return [program, *balancer.arguments(file)]
    return []
