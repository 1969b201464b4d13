"""Operations on memories: each is written once, and every interface calls it and words its result."""
