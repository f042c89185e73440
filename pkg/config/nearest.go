package config

import "strings"

// maxNameLength bounds the names that are compared, since the time grows with the product of both lengths.
const maxNameLength = 64

// Nearest is the candidate that takes the fewest typing errors to become name; the first one if several do. It is empty
// only if there is no candidate. Case and the difference of - and _ do not count.
func Nearest(name string, candidates []string) string {
	best, fewest := "", 0
	for _, c := range candidates {
		if d := distance(plain(name), plain(c)); best == "" || d < fewest {
			best, fewest = c, d
		}
	}
	return best
}

func plain(name string) string {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	return name[:min(len(name), maxNameLength)]
}

// distance counts the characters to insert, delete, replace, or swap with their neighbour.
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
			replace := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			rows[i][j] = min(replace, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
