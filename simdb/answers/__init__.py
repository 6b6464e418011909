"""Questions answered: a question is turned into a method, the method finds, the items decide."""
