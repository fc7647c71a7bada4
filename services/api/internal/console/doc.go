// Package console is the console: a server-rendered page for everything that the API does. This
// package is its kernel: the sign-in, sessions, the frame around every page, the elements that
// pages are made of, and the way to the data. The pages themselves are packages below it, one a
// group, which know nothing of each other: home, settings, and so on.
//
// # How a page is made
//
// A package of pages has templates in an embed.FS and returns a [Module]. It is named in
// modules() of services/api/console.go, and nowhere else.
//
//	//go:embed templates/*.html
//	var files embed.FS
//
//	func Module() console.Module {
//		return console.Module{
//			Name: "webhooks", Templates: files,
//			Routes: []console.Route{
//				{Method: http.MethodGet, Path: "/console/webhooks", Handle: list},
//				{Method: http.MethodPost, Path: "/console/webhooks/{webhookId}/delete", Handle: remove},
//			},
//			Nav: []console.NavEntry{{Label: "Webhooks", Path: "/console/webhooks", Icon: "webhooks", Order: console.OrderWebhooks, Key: "w"}},
//		}
//	}
//
// A handler calls the API, returns its errors as they are, and shows a template:
//
//	func list(p *console.Page) error {
//		var answer web.CursorPage[deliveries.Delivery] // the type that the API's family answers with
//		query := p.Pick("status", "webhookId", "cursor") // the URL is the page's state
//		if err := p.API.Get("/v1/deliveries", query, &answer); err != nil {
//			return err // 403, 404, 503 … as a page, with the API's status
//		}
//		p.CLI("deliveries list") // for the drawer "As API"; cURL and MCP come by themselves
//		return p.Show("list.html", "Deliveries", view{answer.Data, p.Paging(answer.NextCursor)})
//	}
//
// The rules, which tests hold every page to:
//
//   - Data and changes go through [Page.API] alone, [API.Get], [API.Try], [API.Send]. It calls the
//     API's own handler with the session's principal, so rights, validation, tenancy and the audit
//     log are the API's. Build paths with [Path]: it escapes. A part that the rest can do without
//     is read with Try, whose problem the template "unavailable" shows: no right, no such operation.
//   - Answers are read into the exported types of the API's families, and web.Listing and web.CursorPage of
//     them. A page adds methods by embedding one.
//   - The first Get of a page reads the thing that the page is about. Its problem becomes the page's problem.
//   - GET changes nothing. What changes is a form with method="post" to a route of method POST. It
//     ends with [Page.Done], which says what was done on the page that it leads to, with
//     [Page.ShowInvalid] when the form had faults, or with the error.
//   - A destructive action asks first: by a GET route that calls [Page.ShowConfirm].
//   - Everything works without a script. No style attribute, no inline script, no template.HTML,
//     no third party: the policy forbids them.
//   - [Page.May] leaves out an act that the API would refuse. [Page.Has] reports whether another
//     package's page is there to be linked.
//   - The scopes that a page needs are in [NavEntry.Scopes]: without them, neither the menu nor [Page.Has] leads there.
//   - Parameters of paths have the names that [Route] lists. A test fills them in.
//
// A form keeps what was typed and shows the API's faults where they belong:
//
//	form := console.NewForm(values)
//	if err := p.API.Send(http.MethodPost, "/v1/webhooks", body, &made); form.Failed(err) {
//		return p.ShowInvalid("new.html", "New webhook", view{Form: form}, form)
//	} else if err != nil {
//		return err
//	}
//	return p.Done("The webhook is registered.", console.Path("console", "webhooks", made.ID))
//
// A field's name is the JSON pointer of what it sets, without the first slash: url, filter/type.
// A form with a file has enctype="multipart/form-data", is read by p.Upload, and sent on by
// p.API.SendFile. An answer without JSON, as a secret's, is read into a *[]byte; headers of an answer are in
// p.API.Last().Header.
//
// Module.Find returns what a search leads to: the things of the package that the session sees, and acts on them that
// it may do.
//
// # Templates
//
// A file is the content of <main>; files whose names begin with _ are parts of all files beside
// them. Dot is what was given to Show. It begins with a head:
//
//	<header class="head"><div>
//	<nav class="crumbs" aria-label="Above"><a href="/console/webhooks">Webhooks</a></nav>
//	<h1>{{visible .URL}}</h1><p class="lede">…</p></div>
//	<div class="actions"><a class="button primary" href="…">{{template "icon" "plus"}}New webhook</a></div></header>
//
// Elements, each with what it takes:
//
//	{{template "time" .At}}        a time; "ago" how long ago; "countdown" how soon; "exact" to the millisecond. Texts in RFC 3339,
//	                               pointers to them, or time.Time.
//	{{template "status" .Status}}  a badge; "dot" the same without the word. The colour is by tone().
//	{{template "id" .ID}}          code with a copy button; {{template "copy" .Text}} the button alone
//	{{template "code" .Text}}      a block to copy; {{template "json" .Raw}} JSON, indented, coloured
//	{{template "facts" .Facts}}    []console.Fact; or write <dl class="facts"><div><dt>…<dd>…</div></dl>
//	{{template "tabs" .Tabs}}      []console.Tab
//	{{template "paging" .Paging}}  p.Paging(nextCursor), newest first; {{template "offsets" .Paging}}
//	                               p.Offsets(offset, shown, total), in any other order
//	{{template "state" .State}}    console.State: nothing yet (with the command that makes something),
//	                               no match (with a link that clears the filter), no longer kept
//	{{template "unavailable" .P}}  a *console.Problem in the place of a part
//	{{template "fault" .Form.Problem}} what is wrong as a whole; {{template "faults" (.Form.Rest "/url")}}
//	                               the faults of no field
//	{{template "field" (field .Form "/url" "Address" | hint "https only" | required)}}
//	                               also: | typed "number" | typed "checkbox" | typed "search" |
//	                               place "https://…" | rows 8 | options .Options | wide
//	{{template "range" .Range}}    p.Range(form, "since", "until"): a span up to now, or from when to when
//	{{template "bars" .Bars}}      console.Bars; {{template "spark" .Line}} console.Line
//	{{template "icon" "events"}}   see shared/look/templates/icons.html
//
// Functions: visible (for every text that others wrote: control characters and those that turn the
// direction of writing become visible), pretty, number, percent, millis, clock, since, exact, tone,
// stamp, path "console" "events" .ID, query "status" .Status "type" .Type.
//
// Classes, all in shared/look/waybill.css; docs/design.md says when to use which:
//
//	panel (with > header, > .body)   a framed part;   grid, split, stack   arrange parts
//	figures                          a <dl> of a few large numbers
//	list [cards]                     a table; in a narrow window, cards makes each row a card and
//	                                 takes the columns' names from data-label of the cells.
//	                                 Cells: num, fit (no wider than needed), cut (one line).
//	                                 Put it into <div class="scroll" tabindex="0">.
//	filters                          a GET form with fields and a button
//	timeline                         an <ol>; its <li> are good, bad, warn, busy or next, and have
//	                                 <div class="step-head"><h3>…</h3> {{template "time" …}}</div>
//	note [info], fault, flash, tag, quiet, badge, dot, button [primary, danger, small], checklist
//
// Scripts: data-live="delivery webhook" on an element has the page read anew, at most once a second,
// when GET /v1/live tells of such a thing; what is typed, open and in focus stays. data-act on a
// row's button or link is what the key r does; data-refresh="2" has the page read anew every two
// seconds, for what ends soon; data-plain on a form or link lets the browser
// load the whole page. <input type="checkbox" data-all> in a table's head chooses all rows.
//
// # Tests
//
// A package of pages tests its templates with one line, consoletest.Templates(t, Module(), samples()):
// each is executed with all of its samples, map[string][]any{"list.html": {view{}, view{…full, with
// hostile text…}}}, must be well-formed, and must escape. Its routes are walked by
// TestConsoleRoutes of services/api, as nobody, with a key that only reads, with keys of one scope
// and with another account's key, and each answer is compared with the API's own.
package console
