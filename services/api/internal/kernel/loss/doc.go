// Package loss decides what the bus may have lost. The bus acknowledges what it stores, but a
// power cut can take the last moments of it, a directory can be deleted, and a server that
// crashes forgets which messages were acknowledged. The database then restores what is
// missing, and nothing else: whatever is sent again needlessly is a repeat at a receiver.
//
// There is one question for each thing that can be missing:
//
//   - Does a stream still hold what it held? [Compare] knows by a mark that is kept in the
//     database. A stream that was made at another time, that is not as far as its mark, or
//     whose oldest message from before the mark is younger than the mark, has lost its content.
//     Where only the server was started again, its last seconds are uncertain.
//   - Which waiting deliveries are given back then? [Restoration] says, in two passes.
//   - Which unsettled events does the bus no longer hold? [Horizon] says: an event lives on
//     in RECORDS after it has left EVENTS, so both streams count.
//
// docs/decisions/0012-what-the-bus-has-lost.md gives the reasons, with what was measured.
package loss
