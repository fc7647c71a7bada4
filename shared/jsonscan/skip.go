package jsonscan

// skip reads the value at the position, however deep it is nested. It keeps one bit for each level,
// so that a text that consists of brackets takes an eighth of its size.
func (s *Scanner) skip() error {
	depth := 0
	s.nested = s.nested[:0]
	for {
		if s.pos == len(s.body) {
			return s.cutError()
		}
		opened := false
		switch c := s.body[s.pos]; c {
		case '{', '[':
			s.pos++
			s.push(depth, c == '{')
			depth++
			opened = true
		default:
			if err := s.scalar(); err != nil {
				return err
			}
		}
		for depth > 0 {
			ended, err := s.readBetween(s.isObject(depth-1), opened)
			if err != nil {
				return err
			}
			opened = false
			if !ended {
				break
			}
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

// readBetween reads the text before the next value in a container, or its end.
func (s *Scanner) readBetween(object, opened bool) (ended bool, err error) {
	s.space()
	if s.pos == len(s.body) {
		return false, s.cutError()
	}
	c, end := s.body[s.pos], byte(']')
	if object {
		end = '}'
	}
	if c == end {
		s.pos++
		return true, nil
	}
	if !opened {
		if c != ',' {
			return false, s.syntaxError(s.pos)
		}
		comma := s.pos
		s.pos++
		s.space()
		if s.pos < len(s.body) && (s.body[s.pos] == '}' || s.body[s.pos] == ']') {
			return false, s.syntaxError(comma)
		}
	}
	if !object {
		return false, nil
	}
	if s.pos == len(s.body) {
		return false, s.cutError()
	}
	if s.body[s.pos] != '"' {
		return false, s.syntaxError(s.pos)
	}
	if _, _, err := s.string(); err != nil {
		return false, err
	}
	if err := s.colon(); err != nil {
		return false, err
	}
	s.space()
	return false, nil
}

func (s *Scanner) push(depth int, object bool) {
	if depth/64 == len(s.nested) {
		s.nested = append(s.nested, 0)
	}
	bit := uint64(1) << (depth % 64)
	if object {
		s.nested[depth/64] |= bit
	} else {
		s.nested[depth/64] &^= bit
	}
}

func (s *Scanner) isObject(depth int) bool { return s.nested[depth/64]>>(depth%64)&1 == 1 }
