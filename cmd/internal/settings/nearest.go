package settings

import "strings"

// Nearest returns the known word that text is most likely a typo of;
// empty: none is near.
func Nearest(text string, known []string) string {
	best, least := "", max(1, len(text)/3)+1
	for _, word := range known {
		if d := distance(strings.ToLower(text), word); d < least {
			best, least = word, d
		}
	}
	return best
}

// distance counts the letters that must be put in, taken out, changed or swapped with
// their neighbour to make b of a.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
