package docstest_test

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
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
	csharpHarness = `using System;
using System.Collections.Generic;
using System.Text;

static class Harness
{
    static void Main()
    {
        string[] names = { "webhook-id", "webhook-timestamp", "webhook-signature" };
        for (string line; (line = Console.In.ReadLine()) != null;)
        {
            string[] fields = line.Split('\t');
            var headers = new Dictionary<string, string>();
            for (int i = 0; i < names.Length; i++)
            {
                if (fields[i + 1] != "-") headers[names[i]] = Encoding.UTF8.GetString(Convert.FromBase64String(fields[i + 1]));
            }
            string[] keys = Encoding.UTF8.GetString(Convert.FromBase64String(fields[0])).Split(',');
            Console.WriteLine(Callbacks.Verified(keys, headers, Convert.FromBase64String(fields[4])) ? "true" : "false");
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

// scheme is a way to sign, with what the page's code for it is given.
type scheme struct {
	version string // of its signatures
	section string // of the page
	in      []string
	// fresh makes a key: the text that receivers get, and what signs with it.
	fresh func() key
}

type key struct {
	text string
	sign func(at time.Time, body []byte) string
}

func schemes() []scheme {
	return []scheme{
		{"v1", "Without a library", []string{"java", "csharp", "ruby", "php"}, func() key {
			text := "whsec_" + base64.StdEncoding.EncodeToString(domain.NewSecretBytes(24))
			secret, err := signature.ParseSecret(text)
			if err != nil {
				panic(err)
			}
			return key{text, func(at time.Time, body []byte) string { return signature.NewSigner(secret).Sign("msg_1", at, body) }}
		}},
		{"v1a", "With a public key", []string{"python", "js", "ruby", "php", "java"}, func() key {
			private := signature.NewPrivateKey()
			return key{signature.FormatPublicKey(private.Public()), func(at time.Time, body []byte) string {
				return signature.SignAsymmetric([]signature.PrivateKey{private}, "msg_1", at, body)
			}}
		}},
	}
}

func languages() []language {
	return []language{
		{"python", "snippet.py", "harness.py", pythonHarness, `python3 -c 'import cryptography'`, "python3-cryptography", "python3 harness.py"},
		{"js", "snippet.mjs", "harness.mjs", jsHarness, "node --version", "nodejs", "node harness.mjs"},
		{"ruby", "snippet.rb", "harness.rb", rubyHarness, `ruby -ropenssl -e 'exit OpenSSL::VERSION >= "3"'`, "ruby", "ruby harness.rb"},
		{"php", "snippet.php", "harness.php", phpHarness, "php -m | grep -q sodium", "php-cli", "php harness.php"},
		{"csharp", "Callbacks.cs", "Harness.cs", csharpHarness, "mcs --version", "mono-mcs", "mcs -out:harness.exe -r:System.Core Callbacks.cs Harness.cs && mono harness.exe"},
		{"java", "Callbacks.java", "Harness.java", javaHarness, "javac -version", "default-jdk-headless", "javac Callbacks.java Harness.java && java Harness"},
	}
}

// Receivers are given code in several languages, for secrets and for public keys. In each, it takes what is
// signed and nothing else, and no callback makes it fail instead of answering: a stranger must not be able to
// do that.
func TestSnippets(t *testing.T) {
	t.Parallel()
	for _, s := range schemes() {
		_, section, _ := strings.Cut(read(t, "docs/receivers.md"), "\n### "+s.section+"\n")
		section, _, _ = strings.Cut(section, "\n### ")
		names, lines, want := callbacks(s)
		for _, l := range languages() {
			if slices.Contains(s.in, l.name) {
				t.Run(s.version+"/"+l.name, func(t *testing.T) {
					t.Parallel()
					l.try(t, section, names, lines, want)
				})
			}
		}
	}
}

// try gives the snippet of a section the callbacks, and compares its answers.
func (l language) try(t *testing.T, section string, names, lines []string, want map[string]string) {
	t.Helper()
	_, snippet, _ := strings.Cut(section, "```"+l.name+"\n")
	snippet, _, found := strings.Cut(snippet, "```")
	if !found {
		t.Fatalf("the section has no %s", l.name)
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
}

// callbacks returns callbacks that Waybill has signed, and others, as the harnesses read them, with the
// answers that there must be.
func callbacks(s scheme) (names, lines []string, want map[string]string) {
	mine, second, other := s.fresh(), s.fresh(), s.fresh()
	now, body := time.Now(), []byte("{\"name\":\"Zoë\",\"raw\":\"\xff\"}\n")
	sign := func(at time.Time, keys ...key) string {
		var parts []string
		for _, k := range keys {
			parts = append(parts, k.sign(at, body))
		}
		return strings.Join(parts, " ")
	}
	const missing = "\x00"
	want = make(map[string]string)
	add := func(name string, good bool, stamp, signed, body string) {
		line := []string{base64.StdEncoding.EncodeToString([]byte(mine.text + "," + second.text))}
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
	v, another := s.version, map[string]string{"v1": "v1a", "v1a": "v1"}[s.version]
	full := v + "," + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\xff", 64)))
	add("signed", true, stamp, good, text)
	add("by the second key", true, stamp, sign(now, second), text)
	add("by both keys of a rotation", true, stamp, sign(now, mine, second), text)
	add("by a stranger, then by the key", true, stamp, sign(now, other, mine), text)
	add("behind what is no signature", true, stamp, another+",AAAA "+v+" "+v+", "+v+",*** "+v+",AAAA "+full+" "+good, text)
	add("by another key", false, stamp, sign(now, other), text)
	add("of another body", false, stamp, good, text+" ")
	add("without a body", false, stamp, good, "")
	add("of another second", false, strconv.FormatInt(now.Unix()-1, 10), good, text)
	for name, at := range map[string]time.Time{"old": now.Add(-6 * time.Minute), "of the future": now.Add(time.Hour)} {
		add(name, false, strconv.FormatInt(at.Unix(), 10), sign(at, mine), text)
	}
	add("of another version", false, stamp, another+strings.TrimPrefix(good, v), text)
	for _, odd := range []string{"", v, v + ",", v + ",***", v + ",AAAA", full, ",", " ", good[:40]} {
		add("signed by "+strconv.Quote(odd), false, stamp, odd, text)
	}
	add("without a signature", false, stamp, missing, text)
	for _, odd := range []string{"", "now", strings.Repeat("9", 400), "-1", "1e9", "Infinity"} {
		add("at "+strconv.Quote(odd), false, odd, good, text)
	}
	add("without a time", false, missing, good, text)
	return names, lines, want
}
