package webhooks

// snippet is code of a receiver that checks signatures, in a language. The libraries are those of
// docs/receivers.md. The secret is read from the environment and never part of the code.
type snippet struct{ Language, Library, Text string }

func snippets() []snippet {
	return []snippet{
		{"Go", "github.com/standard-webhooks/standard-webhooks/libraries", goSnippet},
		{"Python", "standardwebhooks", pythonSnippet},
		{"JavaScript", "standardwebhooks", javaScriptSnippet},
		{"Ruby", "standardwebhooks", rubySnippet},
		{"PHP", "standard-webhooks/standard-webhooks", phpSnippet},
		{"Java", "com.standardwebhooks:standardwebhooks", javaSnippet},
	}
}

const goSnippet = `import standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

func receive(w http.ResponseWriter, r *http.Request) {
	webhook, err := standardwebhooks.NewWebhook(os.Getenv("WEBHOOK_SECRET"))
	if err != nil {
		http.Error(w, "no secret", http.StatusInternalServerError)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, "can't read the body", http.StatusBadRequest)
		return
	}
	if err := webhook.Verify(body, r.Header); err != nil {
		http.Error(w, "signature does not verify", http.StatusUnauthorized)
		return
	}
	// store the event under r.Header.Get("webhook-id"), then answer
	w.WriteHeader(http.StatusNoContent)
}`

const pythonSnippet = `import os
from flask import Flask, request
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

app = Flask(__name__)
webhook = Webhook(os.environ["WEBHOOK_SECRET"])

@app.post("/shipments")
def shipments():
    try:
        event = webhook.verify(request.get_data(), dict(request.headers))
    except WebhookVerificationError:
        return "signature does not verify", 401
    # store the event under request.headers["webhook-id"], then answer
    return "", 204`

const javaScriptSnippet = `import express from "express";
import { Webhook } from "standardwebhooks";

const app = express();
const webhook = new Webhook(process.env.WEBHOOK_SECRET);

app.post("/shipments", express.raw({ type: "application/json" }), (req, res) => {
  let event;
  try {
    event = webhook.verify(req.body.toString("utf8"), req.headers);
  } catch {
    return res.status(401).send("signature does not verify");
  }
  // store the event under req.headers["webhook-id"], then answer
  res.sendStatus(204);
});`

const rubySnippet = `require "standardwebhooks"

webhook = StandardWebhooks::Webhook.new(ENV.fetch("WEBHOOK_SECRET"))
event = webhook.verify(request.raw_post, headers) # raises when it does not verify
# store the event under its webhook-id, then answer 204`

const phpSnippet = `$webhook = new \StandardWebhooks\Webhook(getenv("WEBHOOK_SECRET"));
$event = $webhook->verify(file_get_contents("php://input"), getallheaders()); // throws
// store the event under its webhook-id, then answer
http_response_code(204);`

const javaSnippet = `import com.standardwebhooks.Webhook;
import java.net.http.HttpHeaders;

// body: the bytes that arrived, as UTF-8. headers: Map<String, List<String>> of the request
Webhook webhook = new Webhook(System.getenv("WEBHOOK_SECRET"));
webhook.verify(body, HttpHeaders.of(headers, (name, value) -> true)); // throws
// store the event under its webhook-id, then answer 204`
