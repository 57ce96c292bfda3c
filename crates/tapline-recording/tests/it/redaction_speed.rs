//! Hostile text takes no more time than other text: twice as much of it takes about twice as long. Counted, not timed.
