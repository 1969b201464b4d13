"""Operations on memories, shared by all interfaces. Each interface renders the results for its users."""
