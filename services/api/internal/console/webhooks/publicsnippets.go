package webhooks

// publicSnippets is how a receiver checks signatures of version v1a. Those of Go, Python and JavaScript
// are the ones of docs/receivers.md.
func publicSnippets() []snippet {
	return []snippet{
		{"Go", "nothing to install", goPublicSnippet},
		{"Python", "cryptography", pythonPublicSnippet},
		{"JavaScript", "nothing to install", javaScriptPublicSnippet},
		{"Ruby", "openssl 3 or newer", rubyPublicSnippet},
		{"PHP", "sodium", phpPublicSnippet},
		{"Java", "nothing to install, from 17 on", javaPublicSnippet},
	}
}

// snippetsFor returns how a receiver of the webhook checks with its secret, and with a public key.
func (w *webhook) snippetsFor() (secret, public []snippet) {
	if w.Signing != "v1a" {
		secret = snippets()
	}
	if w.Signing == "v1a" || w.Signing == "both" {
		public = publicSnippets()
	}
	return secret, public
}

const goPublicSnippet = `package receiver

import (
	"crypto/ed25519"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Verify reports whether one of the keys (the 32 bytes after whpk_) has signed the body.
func Verify(keys []ed25519.PublicKey, header http.Header, body []byte) bool {
	id, stamp := header.Get("webhook-id"), header.Get("webhook-timestamp")
	unix, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || time.Since(time.Unix(unix, 0)).Abs() > 5*time.Minute {
		return false
	}
	signed := append([]byte(id+"."+stamp+"."), body...)
	for _, part := range strings.Split(header.Get("webhook-signature"), " ") {
		encoded, isV1a := strings.CutPrefix(part, "v1a,")
		signature, err := base64.StdEncoding.DecodeString(encoded)
		if !isV1a || err != nil {
			continue
		}
		for _, key := range keys {
			if ed25519.Verify(key, signed, signature) {
				return true
			}
		}
	}
	return false
}`

const pythonPublicSnippet = `import base64, time
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

def verify(keys, headers, body):
    """keys: list of whpk_ texts; headers: with names in lower case; body: the bytes that arrived."""
    stamp = headers["webhook-timestamp"]
    if abs(time.time() - int(stamp)) > 300:
        return False
    signed = f"{headers['webhook-id']}.{stamp}.".encode() + body
    for part in headers["webhook-signature"].split(" "):
        version, _, encoded = part.partition(",")
        if version != "v1a":
            continue
        for key in keys:
            public = Ed25519PublicKey.from_public_bytes(base64.b64decode(key.removeprefix("whpk_")))
            try:
                public.verify(base64.b64decode(encoded), signed)
                return True
            except InvalidSignature:
                pass
    return False`

const javaScriptPublicSnippet = `import { createPublicKey, verify } from "node:crypto";

export function verified(jwks, headers, body) {
  const stamp = headers["webhook-timestamp"];
  if (!(Math.abs(Date.now() / 1000 - Number(stamp)) <= 300)) return false;
  const signed = Buffer.concat([Buffer.from(` + "`" + `${headers["webhook-id"]}.${stamp}.` + "`" + `), body]);
  const keys = jwks.keys.map((key) => createPublicKey({ key, format: "jwk" }));
  return headers["webhook-signature"].split(" ").some((part) => {
    const [version, encoded] = part.split(",");
    return version === "v1a" && keys.some((key) => verify(null, signed, key, Buffer.from(encoded, "base64")));
  });
}`

const rubyPublicSnippet = `require "openssl"

# key: a whpk_ text; headers: with names in lower case; body: the bytes that arrived
def verified?(key, headers, body)
  stamp = headers["webhook-timestamp"]
  return false if (Time.now.to_i - stamp.to_i).abs > 300
  prefix = ["302a300506032b6570032100"].pack("H*")
  public = OpenSSL::PKey.read(prefix + key.delete_prefix("whpk_").unpack1("m"))
  signed = "#{headers["webhook-id"]}.#{stamp}.".b + body.b
  parts = headers["webhook-signature"].split(" ").map { |part| part.split(",", 2) }
  parts.any? { |version, text| version == "v1a" && public.verify(nil, text.unpack1("m"), signed) }
end`

const phpPublicSnippet = `// $key: a whpk_ text; $headers: with names in lower case; $body: the bytes that arrived
function verified(string $key, array $headers, string $body): bool
{
    $stamp = $headers["webhook-timestamp"];
    if (abs(time() - (int) $stamp) > 300) {
        return false;
    }
    $public = base64_decode(substr($key, strlen("whpk_")));
    $signed = $headers["webhook-id"] . "." . $stamp . "." . $body;
    foreach (explode(" ", $headers["webhook-signature"]) as $part) {
        [$version, $encoded] = explode(",", $part, 2) + ["", ""];
        $signature = base64_decode($encoded);
        if ($version === "v1a" && strlen($signature) === SODIUM_CRYPTO_SIGN_BYTES
            && sodium_crypto_sign_verify_detached($signature, $signed, $public)) {
            return true;
        }
    }
    return false;
}`

const javaPublicSnippet = `// key: a whpk_ text; id, stamp, signatures: the headers webhook-id, webhook-timestamp and
// webhook-signature; body: the bytes that arrived
static boolean verified(String key, String id, String stamp, String signatures, byte[] body) throws GeneralSecurityException {
    if (Math.abs(Instant.now().getEpochSecond() - Long.parseLong(stamp)) > 300) return false;
    byte[] prefix = HexFormat.of().parseHex("302a300506032b6570032100");
    byte[] raw = Base64.getDecoder().decode(key.substring("whpk_".length()));
    byte[] encoded = ByteBuffer.allocate(44).put(prefix).put(raw).array();
    PublicKey publicKey = KeyFactory.getInstance("Ed25519").generatePublic(new X509EncodedKeySpec(encoded));
    for (String part : signatures.split(" ")) {
        if (!part.startsWith("v1a,")) continue;
        Signature check = Signature.getInstance("Ed25519");
        check.initVerify(publicKey);
        check.update((id + "." + stamp + ".").getBytes(StandardCharsets.UTF_8));
        check.update(body);
        if (check.verify(Base64.getDecoder().decode(part.substring("v1a,".length())))) return true;
    }
    return false;
}`
