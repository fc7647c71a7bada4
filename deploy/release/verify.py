"""verify.py PORT SECRET: waits for a callback on loopback and ends with 0 if its signature verifies.

It knows nothing of Waybill, only the rules of Standard Webhooks.
"""

import base64
import hashlib
import hmac
import http.server
import sys
import threading

port, secret = int(sys.argv[1]), base64.b64decode(sys.argv[2].removeprefix("whsec_"))
results = []


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        signed = b".".join([self.headers["webhook-id"].encode(), self.headers["webhook-timestamp"].encode(), body])
        want = "v1," + base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
        verified = any(hmac.compare_digest(want, given) for given in self.headers["webhook-signature"].split())
        self.send_response(204 if verified else 400)
        self.end_headers()
        print(f"{self.headers['webhook-id']}: {len(body)} bytes, the signature {'verifies' if verified else 'does not verify'}")
        results.append(verified)
        threading.Thread(target=self.server.shutdown).start()

    def log_message(self, *_):
        pass


server = http.server.HTTPServer(("127.0.0.1", port), Receiver)
print("listening", flush=True)
# A callback that never comes ends the wait, too.
deadline = threading.Timer(60, server.shutdown)
deadline.daemon = True
deadline.start()
server.serve_forever()
sys.exit(0 if results and results[0] else 1)
