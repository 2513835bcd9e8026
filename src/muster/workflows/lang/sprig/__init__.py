"""`sprig.*`: the functions of github.com/Masterminds/sprig that an Argo expression may call."""
