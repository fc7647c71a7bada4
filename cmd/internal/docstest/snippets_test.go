package docstest_test

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/signature"
)

// Each harness reads a callback from each line of its input: the keys with commas between them, webhook-id,
// webhook-timestamp, webhook-signature and the body, with tabs between them and each in base64; a - for what
// is missing. It answers with a line true or false.
const (
	pythonHarness = `import base64, sys
from snippet import verify
for line in sys.stdin:
    keys, *rest, body = line.rstrip("\n").split("\t")
    names = ["webhook-id", "webhook-timestamp", "webhook-signature"]
    headers = {name: base64.b64decode(text).decode() for name, text in zip(names, rest) if text != "-"}
    print(str(verify(base64.b64decode(keys).decode().split(","), headers, base64.b64decode(body))).lower())
`
	jsHarness = `import { readFileSync } from "node:fs";
import { verified } from "./snippet.mjs";
const plain = (text) => Buffer.from(text, "base64");
for (const line of readFileSync(0, "utf8").trimEnd().split("\n")) {
  const [keys, id, stamp, signed, body] = line.split("\t");
  const headers = {};
  for (const [name, text] of Object.entries({ "webhook-id": id, "webhook-timestamp": stamp, "webhook-signature": signed })) {
    if (text !== "-") headers[name] = plain(text).toString();
  }
  const jwks = { keys: plain(keys).toString().split(",").map((key) => (
    { kty: "OKP", crv: "Ed25519", alg: "EdDSA", use: "sig", kid: key, x: plain(key.slice("whpk_".length)).toString("base64url") })) };
  console.log(verified(jwks, headers, plain(body)));
}
`
	rubyHarness = `require_relative "snippet"
STDIN.each_line(chomp: true) do |line|
  keys, *rest, body = line.split("\t", -1)
  headers = %w[webhook-id webhook-timestamp webhook-signature].zip(rest).reject { |_, text| text == "-" }.to_h { |name, text| [name, text.unpack1("m")] }
  puts verified?(keys.unpack1("m").split(","), headers, body.unpack1("m"))
end
`
	phpHarness = `<?php
error_reporting(E_ALL);
set_error_handler(function ($level, $message) { throw new ErrorException($message); });
require "snippet.php";
while (($line = fgets(STDIN)) !== false) {
    [$keys, $id, $stamp, $signed, $body] = explode("\t", rtrim($line, "\n"));
    $headers = [];
    foreach (["webhook-id" => $id, "webhook-timestamp" => $stamp, "webhook-signature" => $signed] as $name => $text) {
        if ($text !== "-") {
            $headers[$name] = base64_decode($text);
        }
    }
    echo verified(explode(",", base64_decode($keys)), $headers, base64_decode($body)) ? "true\n" : "false\n";
}
`
	javaHarness = `import java.util.*;

final class Harness {
    public static void main(String[] args) throws Exception {
        Base64.Decoder plain = Base64.getDecoder();
        List<String> names = List.of("webhook-id", "webhook-timestamp", "webhook-signature");
        for (Scanner in = new Scanner(System.in); in.hasNextLine();) {
            String[] fields = in.nextLine().split("\t", -1);
            Map<String, String> headers = new HashMap<>();
            for (int i = 0; i < names.size(); i++) {
                if (!fields[i + 1].equals("-")) headers.put(names.get(i), new String(plain.decode(fields[i + 1])));
            }
            List<String> keys = List.of(new String(plain.decode(fields[0])).split(","));
            System.out.println(Callbacks.verified(keys, headers, plain.decode(fields[4])));
        }
    }
}
`
)

// language is how a snippet of the page is run.
type language struct {
	name          string // of its blocks
	file, harness string // names of files
	code          string // of the harness
	needs         string // a command that only works where the snippet can run
	install       string // what brings it, on Debian
	run           string
}

func languages() []language {
	return []language{
		{"python", "snippet.py", "harness.py", pythonHarness, `python3 -c 'import cryptography'`, "python3-cryptography", "python3 harness.py"},
		{"js", "snippet.mjs", "harness.mjs", jsHarness, "node --version", "nodejs", "node harness.mjs"},
		{"ruby", "snippet.rb", "harness.rb", rubyHarness, `ruby -ropenssl -e 'exit OpenSSL::VERSION >= "3"'`, "ruby", "ruby harness.rb"},
		{"php", "snippet.php", "harness.php", phpHarness, "php -m | grep -q sodium", "php-cli", "php harness.php"},
		{"java", "Callbacks.java", "Harness.java", javaHarness, "javac -version", "default-jdk-headless", "javac Callbacks.java Harness.java && java Harness"},
	}
}

// Receivers are given code for public keys in several languages. In each, it takes what is signed and nothing
// else, and no callback makes it fail instead of answering: a stranger must not be able to do that.
func TestPublicKeySnippets(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(read(t, "docs/receivers.md"), "\n### With a public key\n")
	names, lines, want := callbacks()
	for _, l := range languages() {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			_, snippet, _ := strings.Cut(section, "```"+l.name+"\n")
			snippet, _, found := strings.Cut(snippet, "```")
			if !found {
				t.Fatalf("receivers.md has no %s for public keys", l.name)
			}
			if err := exec.CommandContext(t.Context(), "bash", "-c", l.needs).Run(); err != nil {
				t.Skipf("NOT RUN: what runs the %s of docs/receivers.md is missing (Debian: apt-get install %s)", l.name, l.install)
			}
			dir := t.TempDir()
			for name, text := range map[string]string{l.file: snippet, l.harness: l.code} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(t.Context(), "bash", "-c", l.run)
			cmd.Dir, cmd.Stdin = dir, strings.NewReader(strings.Join(lines, "\n")+"\n")
			var failed strings.Builder
			cmd.Stderr = &failed
			out, err := cmd.Output()
			got := map[string]string{}
			for i, answer := range strings.Fields(string(out)) {
				got[names[min(i, len(names)-1)]] = answer
			}
			if err != nil {
				t.Errorf("it fails at %q: %v\n%s", names[min(len(got), len(names)-1)], err, failed.String())
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
		})
	}
}

// callbacks returns callbacks that Waybill has signed, and others, as the harnesses read them, with the
// answers that there must be.
func callbacks() (names, lines []string, want map[string]string) {
	mine, second, other := signature.NewPrivateKey(), signature.NewPrivateKey(), signature.NewPrivateKey()
	now, body := time.Now(), []byte("{\"name\":\"Zoë\",\"raw\":\"\xff\"}\n")
	sign := func(at time.Time, keys ...signature.PrivateKey) string {
		return signature.SignAsymmetric(keys, "msg_1", at, body)
	}
	const missing = "\x00"
	want = make(map[string]string)
	add := func(name string, good bool, stamp, signed, body string) {
		line := []string{base64.StdEncoding.EncodeToString([]byte(signature.FormatPublicKey(mine.Public()) + "," + signature.FormatPublicKey(second.Public())))}
		for _, text := range []string{"msg_1", stamp, signed, body} {
			encoded := base64.StdEncoding.EncodeToString([]byte(text))
			if text == missing {
				encoded = "-"
			}
			line = append(line, encoded)
		}
		names, lines, want[name] = append(names, name), append(lines, strings.Join(line, "\t")), strconv.FormatBool(good)
	}
	stamp, good, text := strconv.FormatInt(now.Unix(), 10), sign(now, mine), string(body)
	full := "v1a," + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\xff", 64)))
	add("signed", true, stamp, good, text)
	add("by the second key", true, stamp, sign(now, second), text)
	add("by both keys of a rotation", true, stamp, sign(now, mine, second), text)
	add("by a stranger, then by the key", true, stamp, sign(now, other, mine), text)
	add("behind what is no signature", true, stamp, "v1,AAAA v1a v1a, v1a,*** v1a,AAAA "+full+" "+good, text)
	add("by another key", false, stamp, sign(now, other), text)
	add("of another body", false, stamp, good, text+" ")
	add("without a body", false, stamp, good, "")
	add("of another second", false, strconv.FormatInt(now.Unix()-1, 10), good, text)
	for name, at := range map[string]time.Time{"old": now.Add(-6 * time.Minute), "of the future": now.Add(6 * time.Minute)} {
		add(name, false, strconv.FormatInt(at.Unix(), 10), sign(at, mine), text)
	}
	add("of another version", false, stamp, "v1"+strings.TrimPrefix(good, "v1a"), text)
	for _, odd := range []string{"", "v1a", "v1a,", "v1a,***", "v1a,AAAA", full, ",", " ", strings.TrimSuffix(good, "==")[:40]} {
		add("signed by "+strconv.Quote(odd), false, stamp, odd, text)
	}
	add("without a signature", false, stamp, missing, text)
	for _, odd := range []string{"", "now", strings.Repeat("9", 400), "-1", "1e9", "Infinity"} {
		add("at "+strconv.Quote(odd), false, odd, good, text)
	}
	add("without a time", false, missing, good, text)
	return names, lines, want
}
