"""Outer joins: padding rows come and go with the matches of a key, so touched keys are looked at before and after.

For a left join, with K the join keys of ΔR and [K] the rows that have one of them,

    Δ(L ⟕ R) = L₁[K] ⟕ R₁[K]  +  ( ΔL − L₁[K] ) ⟕ R₀

Why it is sound: with R held still a left join is linear in L, for each left row is matched or padded by itself. With L
held still, a left row's result depends on the right rows of its own key only, so rows of other keys do not change; for
those of K the old result is taken back and the new one put in its place, and what is the same in both cancels. A row with
NULL among its keys matches nothing: it is in ΔL or it does not change. ΔL − L₁[K] is added up before it is joined: then it is
ΔL without the keys of K, and −L₀[K], so no left row meets a right row that it was never beside, and on which the query may fail.

For a full join both sides pad, so the keys of both changes are looked at:

    Δ(L ⟗ R) = L₁[K] ⟗ R₁[K]  −  L₀[K] ⟗ R₀[K]  +  pad(ΔL without a key)  +  pad(ΔR without a key)

A right join is a left join turned around. The further conditions of ON are part of ⟕: Spark evaluates them.

Cost: for a left join the matches of ΔL, and the left rows of the keys of ΔR with their matches, which is what the inner
join of ΔR would read too. For a full join the rows of both sides that have a touched key.

The terms themselves are built in `engine.parts`.
"""
