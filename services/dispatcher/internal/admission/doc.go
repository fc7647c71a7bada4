// Package admission decides how much a dispatcher takes on: how many bytes, how many events, how many attempts at once,
// and how many deliveries of one webhook may wait in memory before the others go to its hold queue.
//
// [Events] and [Records] take messages off the bus. Each of the other types answers one question:
//
//   - [Budget]: is there memory for more messages?
//   - [Messages]: which messages has this process taken off the bus and not finished? Their bytes count
//     towards a budget. The server is told regularly that work on them goes on.
//   - [Webhook], one for each webhook: may this delivery start now, may it wait in the short queue,
//     or does it overflow to the hold queue? That depends on the webhook's settings and on how fast
//     its receiver answers.
//   - [Process], one for each dispatcher: may another event be taken from the bus? It counts
//     what all webhooks have in flight and in their short queues.
//   - [Limiter]: which of the attempts that may start get the processor? Without it, an event for
//     10,000 webhooks starts 10,000 attempts that keep each other waiting.
//   - [Overload]: is it this process that can't keep up, and not a receiver? Then a delivery waits
//     longer in memory, because a hold queue would only add work.
//
// [Pacer] spreads bursts of deliveries to webhooks that fail, so that they don't take the processor from others.
//
// The circuit breaker, which stops attempts to a receiver that only fails, is in package deliver. The rising rate at which
// a hold queue is drained is in package hold. Both protect the receiver and don't depend on the load of this process.
//
// All numbers are in numbers.go. docs/limits.md explains them to operators.
package admission
