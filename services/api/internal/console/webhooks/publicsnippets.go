package webhooks

import "waybill.dev/shared/domain"

// publicSnippets returns code for receivers that checks signatures of version v1a. It is the code
// of docs/receivers.md, which a test runs.
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

// snippetsFor returns code for the webhook's receiver that checks with its secret, and with a
// public key.
func (w *webhook) snippetsFor() (secret, public []snippet) {
	if w.Signing != domain.SigningV1A {
		secret = snippets()
	}
	if w.Signing == domain.SigningV1A || w.Signing == domain.SigningBoth {
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
    stamp = headers.get("webhook-timestamp", "")
    if not stamp.isdecimal() or len(stamp) > 11 or abs(time.time() - int(stamp)) > 300:
        return False
    signed = f"{headers.get('webhook-id')}.{stamp}.".encode() + body
    for part in headers.get("webhook-signature", "").split(" "):
        version, _, encoded = part.partition(",")
        if version != "v1a":
            continue
        for key in keys:
            public = Ed25519PublicKey.from_public_bytes(base64.b64decode(key.removeprefix("whpk_")))
            try:
                public.verify(base64.b64decode(encoded), signed)
                return True
            except (InvalidSignature, ValueError):  # not by this key, or no signature at all
                pass
    return False`

const javaScriptPublicSnippet = `import { createPublicKey, verify } from "node:crypto";

export function verified(jwks, headers, body) {
  const stamp = headers["webhook-timestamp"];
  if (!(Math.abs(Date.now() / 1000 - Number(stamp)) <= 300)) return false;
  const signed = Buffer.concat([Buffer.from(` + "`" + `${headers["webhook-id"]}.${stamp}.` + "`" + `), body]);
  const keys = jwks.keys.map((key) => createPublicKey({ key, format: "jwk" }));
  return (headers["webhook-signature"] ?? "").split(" ").some((part) => {
    const [version, encoded = ""] = part.split(",");
    return version === "v1a" && keys.some((key) => verify(null, signed, key, Buffer.from(encoded, "base64")));
  });
}`

//nolint:dupword // Ruby ends each block
const rubyPublicSnippet = `require "openssl"

# keys: whpk_ texts; headers: with names in lower case; body: the bytes that arrived
def verified?(keys, headers, body)
  stamp = headers["webhook-timestamp"].to_s
  return false if (Time.now.to_i - stamp.to_i).abs > 300
  prefix = ["302a300506032b6570032100"].pack("H*")
  known = keys.map { |key| OpenSSL::PKey.read(prefix + key.delete_prefix("whpk_").unpack1("m")) }
  signed = "#{headers["webhook-id"]}.#{stamp}.".b + body.b
  headers["webhook-signature"].to_s.split(" ").any? do |part|
    version, encoded = part.split(",", 2)
    signature = encoded.to_s.unpack1("m")
    version == "v1a" && signature.bytesize == 64 && known.any? { |key| key.verify(nil, signature, signed) }
  end
end`

const phpPublicSnippet = `<?php
// $keys: whpk_ texts; $headers: with names in lower case; $body: the bytes that arrived
function verified(array $keys, array $headers, string $body): bool
{
    $stamp = $headers["webhook-timestamp"] ?? "";
    if (abs(time() - (int) $stamp) > 300) {
        return false;
    }
    $signed = ($headers["webhook-id"] ?? "") . "." . $stamp . "." . $body;
    foreach (explode(" ", $headers["webhook-signature"] ?? "") as $part) {
        [$version, $encoded] = explode(",", $part, 2) + ["", ""];
        $signature = base64_decode($encoded);
        if ($version !== "v1a" || strlen($signature) !== SODIUM_CRYPTO_SIGN_BYTES) {
            continue;
        }
        foreach ($keys as $key) {
            $public = base64_decode(substr($key, strlen("whpk_")));
            if (sodium_crypto_sign_verify_detached($signature, $signed, $public)) {
                return true;
            }
        }
    }
    return false;
}`

const javaPublicSnippet = `import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.security.*;
import java.security.spec.X509EncodedKeySpec;
import java.time.Instant;
import java.util.*;

final class Callbacks {
    /** keys: whpk_ texts; headers: with names in lower case; body: the bytes that arrived. */
    static boolean verified(List<String> keys, Map<String, String> headers, byte[] body) throws GeneralSecurityException {
        String stamp = headers.getOrDefault("webhook-timestamp", "");
        if (!stamp.matches("[0-9]{1,11}") || Math.abs(Instant.now().getEpochSecond() - Long.parseLong(stamp)) > 300) return false;
        ByteArrayOutputStream signed = new ByteArrayOutputStream();
        signed.writeBytes((headers.get("webhook-id") + "." + stamp + ".").getBytes(StandardCharsets.UTF_8));
        signed.writeBytes(body);
        for (String key : keys) {
            PublicKey known = publicKey(key);
            for (String part : headers.getOrDefault("webhook-signature", "").split(" ")) {
                if (part.startsWith("v1a,") && signedBy(known, part.substring("v1a,".length()), signed.toByteArray())) return true;
            }
        }
        return false;
    }

    private static PublicKey publicKey(String key) throws GeneralSecurityException {
        ByteArrayOutputStream encoded = new ByteArrayOutputStream();
        encoded.writeBytes(HexFormat.of().parseHex("302a300506032b6570032100"));
        encoded.writeBytes(Base64.getDecoder().decode(key.substring("whpk_".length())));
        return KeyFactory.getInstance("Ed25519").generatePublic(new X509EncodedKeySpec(encoded.toByteArray()));
    }

    private static boolean signedBy(PublicKey key, String signature, byte[] signed) throws GeneralSecurityException {
        Signature check = Signature.getInstance("Ed25519");
        check.initVerify(key);
        check.update(signed);
        try {
            return check.verify(Base64.getDecoder().decode(signature));
        } catch (SignatureException | IllegalArgumentException e) {
            return false; // it is no signature at all
        }
    }
}`
