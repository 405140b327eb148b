"""Makes calls over TLS with Python's own implementation, and prints the results as JSON."""
import json, socket, ssl, sys


def see(ask):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=ask["ca"])
    if ask.get("certificate"):
        context.load_cert_chain(ask["certificate"], ask["key"])
    if ask.get("alpn"):
        context.set_alpn_protocols(ask["alpn"])
    if ask.get("ciphers"):
        context.set_ciphers(ask["ciphers"])
    if ask.get("version"):
        version = getattr(ssl.TLSVersion, ask["version"])
        context.minimum_version = context.maximum_version = version
    seen = {}
    try:
        plain = socket.create_connection(("127.0.0.1", ask["port"]), timeout=8)
        with context.wrap_socket(plain, server_hostname=ask["host"]) as stream:
            seen["version"], seen["alpn"] = stream.version(), stream.selected_alpn_protocol()
            seen["serial"] = stream.getpeercert()["serialNumber"]
            lines = [f"GET {ask['path']} HTTP/1.1", f"host: localhost:{ask['port']}", "connection: close"]
            stream.sendall("\r\n".join(lines + ["", ""]).encode())
            answer = b""
            while chunk := stream.recv(4096):
                answer += chunk
            seen["status"] = int(answer.split(b" ")[1])
    except (OSError, ValueError, IndexError) as error:
        seen["error"] = f"{type(error).__name__}: {error}"
    return seen


print(json.dumps([see(ask) for ask in json.loads(sys.argv[1])]))
