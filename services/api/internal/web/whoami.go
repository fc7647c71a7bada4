package web

import "net/http"

// whoAmI tells a caller what its key stands for. Keys belong to no person: there is never
// an email.
func (s *server) whoAmI(c *call) error {
	if err := c.query().Err(); err != nil {
		return err
	}
	return c.answer(http.StatusOK, struct {
		Sub     string `json:"sub"`
		Account string `json:"account"`
	}{c.principal.ID, c.principal.Account})
}
