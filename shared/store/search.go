package store

import (
	"strings"

	"gorm.io/gorm"
)

// Pattern returns the pattern of LIKE, with ESCAPE '!', for values that contain a text: %, _ and ! in the text stand for themselves.
func Pattern(text string) string {
	return "%" + strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(text) + "%"
}

// Contains restricts a query to rows in which one of the expressions contains a text. Upper and lower case are the same: on
// Postgres of all letters, on SQLite of A to Z.
func Contains(query *gorm.DB, text string, expressions ...string) *gorm.DB {
	like := " LIKE ? ESCAPE '!'"
	if query.Name() == "postgres" {
		like = " ILIKE ? ESCAPE '!'"
	}
	patterns := make([]any, len(expressions))
	for i := range patterns {
		patterns[i] = Pattern(text)
	}
	return query.Where("("+strings.Join(expressions, like+" OR ")+like+")", patterns...)
}
