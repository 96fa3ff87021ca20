"""The compiled loops of the search for a row of another class, around the bound of :mod:`radii.models.trees.search`.

Names: a *cell* is an interval between neighboring thresholds of a feature; a *pair* is a tree and a feature that it
asks; ``delta`` moves cost between the trees that ask one feature, cell by cell, and sums to 0 (or to the price of the
cell) over them. All loops release the GIL.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]
PROVED, FOUND, OPEN = 0, 1, 2
MOST_SUSPECTS = 4096


@njit(cache=True, nogil=True)
def leaves_of(feature: Array, cut: Array, left: Array, right: Array, root: int, most: int) -> Any:
    """The leaves below ``root`` with what they ask of each feature: nodes, starts, features, first and last cells.

    ``cut`` is the number of a node's threshold among those of its feature; ``most`` bounds the constraints.
    """
    nodes, start = [root], [0]
    features, low, high = [0], [0], [0]
    nodes.pop()
    features.pop()
    low.pop()
    high.pop()
    path_feature, path_low, path_high = np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, np.int32)
    stack = [(root, 0, -1, 0, 0)]  # node, depth, feature, low, high of the last question
    while len(stack) > 0:
        node, depth, asked, least, greatest = stack.pop()
        if asked >= 0:
            path_feature[depth - 1], path_low[depth - 1], path_high[depth - 1] = asked, least, greatest
        if feature[node] >= 0:
            stack.append((right[node], depth + 1, feature[node], cut[node] + 1, 2**30))
            stack.append((left[node], depth + 1, feature[node], 0, cut[node]))
            continue
        first = start[-1]
        for i in range(depth):
            place = first
            while place < len(features) and features[place] != path_feature[i]:
                place += 1
            if place == len(features):
                features.append(path_feature[i])
                low.append(path_low[i])
                high.append(path_high[i])
            else:
                low[place] = max(low[place], path_low[i])
                high[place] = min(high[place], path_high[i])
        empty = False
        for place in range(first, len(features)):
            if low[place] > high[place]:
                empty = True
        if empty:
            while len(features) > first:
                features.pop()
                low.pop()
                high.pop()
            continue
        nodes.append(node)
        start.append(len(features))
    return (
        np.array(nodes, dtype=np.int64),
        np.array(start, dtype=np.int64),
        np.array(features, dtype=np.int64),
        np.array(low, dtype=np.int64),
        np.array(high, dtype=np.int64),
    )


@njit(cache=True, nogil=True)
def reached_leaves(feature: Array, threshold: Array, left: Array, right: Array, roots: Array, x: Array) -> Array:
    """The leaf of every tree that each row of float32 ``x`` [n, d] reaches: [n, trees]."""
    result = np.empty((x.shape[0], roots.shape[0]), np.int64)
    for row in range(x.shape[0]):
        for tree in range(roots.shape[0]):
            node = roots[tree]
            while feature[node] >= 0:
                node = left[node] if x[row, feature[node]] <= threshold[node] else right[node]
            result[row, tree] = node
    return result


@njit(cache=True, nogil=True)
def restricted(
    tree_leaf: Array, con_start: Array, con_feature: Array, con_low: Array, con_high: Array, value: Array,
    low: Array, high: Array, center: Array,
) -> Any:  # fmt: skip
    """The problem inside the box of cells ``low``..``high``: leaves that it meets, pairs, and cells joined.

    Cells of a feature that no leaf tells apart become one; ``nearest`` is the cell of each that is nearest to
    ``center``. Returns (constant, tree_leaf, leaf value, con_start, con_pair, con_low, con_high, pair_feature,
    tree_pair, cell_start, nearest, local features).
    """
    trees, features = tree_leaf.shape[0] - 1, low.shape[0]
    alive = np.zeros(con_start.shape[0] - 1, np.bool_)
    width = high - low + 1
    offset = np.zeros(features + 1, np.int64)
    for f in range(features):
        offset[f + 1] = offset[f] + width[f]
    border = np.zeros(offset[features], np.bool_)  # a border before this cell
    constant, kept_trees, kept_leaves, kept_cons = 0.0, 0, 0, 0
    useful = np.zeros(trees, np.bool_)
    for t in range(trees):
        count, first, different = 0, 0.0, False
        for leaf in range(tree_leaf[t], tree_leaf[t + 1]):
            meets = True
            for c in range(con_start[leaf], con_start[leaf + 1]):
                f = con_feature[c]
                if con_low[c] > high[f] or con_high[c] < low[f]:
                    meets = False
                    break
            alive[leaf] = meets
            if meets:
                if count == 0:
                    first = value[leaf]
                different |= value[leaf] != first
                count += 1
        if not different:
            constant += first
            continue
        useful[t] = True
        kept_trees += 1
        kept_leaves += count
        for leaf in range(tree_leaf[t], tree_leaf[t + 1]):
            if alive[leaf]:
                for c in range(con_start[leaf], con_start[leaf + 1]):
                    f = con_feature[c]
                    if con_low[c] > low[f]:
                        border[offset[f] + con_low[c] - low[f]] = True
                    if con_high[c] < high[f]:
                        border[offset[f] + con_high[c] + 1 - low[f]] = True
                    if con_low[c] > low[f] or con_high[c] < high[f]:
                        kept_cons += 1
    joined = np.empty(offset[features], np.int64)  # the new cell of each old one
    local = np.full(features, -1, np.int64)
    count_features, count_cells = 0, 0
    for f in range(features):
        number = 0
        for i in range(width[f]):
            number += 1 if border[offset[f] + i] else 0
            joined[offset[f] + i] = number
        if number > 0:
            local[f] = count_features
            count_features += 1
            count_cells += number + 1
    names = np.empty(count_features, np.int64)
    cell_start = np.zeros(count_features + 1, np.int64)
    nearest = np.empty(count_cells, np.int64)
    for f in range(features):
        if local[f] >= 0:
            here = cell_start[local[f]]
            names[local[f]] = f
            cell_start[local[f] + 1] = here + joined[offset[f + 1] - 1] + 1
            for i in range(width[f]):
                own = here + joined[offset[f] + i]
                if i == 0 or joined[offset[f] + i] != joined[offset[f] + i - 1] or low[f] + i <= center[f]:
                    nearest[own] = low[f] + i
    new_tree, new_value = np.zeros(kept_trees + 1, np.int64), np.empty(kept_leaves)
    new_start = np.zeros(kept_leaves + 1, np.int64)
    new_pair, new_low = np.empty(kept_cons, np.int64), np.empty(kept_cons, np.int64)
    new_high = np.empty(kept_cons, np.int64)
    pair_feature = np.empty(kept_cons, np.int64)
    tree_pair = np.zeros(kept_trees + 1, np.int64)
    own_pair = np.full(count_features, -1, np.int64)
    t_new, leaf_new, con_new, pairs = 0, 0, 0, 0
    for t in range(trees):
        if not useful[t]:
            continue
        first_pair = pairs
        for leaf in range(tree_leaf[t], tree_leaf[t + 1]):
            if not alive[leaf]:
                continue
            new_value[leaf_new] = value[leaf]
            for c in range(con_start[leaf], con_start[leaf + 1]):
                f = con_feature[c]
                if con_low[c] > low[f] or con_high[c] < high[f]:
                    if own_pair[local[f]] < first_pair:
                        own_pair[local[f]] = pairs
                        pair_feature[pairs] = local[f]
                        pairs += 1
                    new_pair[con_new] = own_pair[local[f]]
                    new_low[con_new] = joined[offset[f] + max(con_low[c] - low[f], 0)]
                    new_high[con_new] = joined[offset[f] + min(con_high[c], high[f]) - low[f]]
                    con_new += 1
            leaf_new += 1
            new_start[leaf_new] = con_new
        t_new += 1
        new_tree[t_new] = leaf_new
        tree_pair[t_new] = pairs
    return (
        constant, new_tree, new_value, new_start, new_pair, new_low, new_high, pair_feature[:pairs].copy(),
        tree_pair, cell_start, nearest, names,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _least(delta: Array, first: int, low: int, high: int) -> float:
    """The least of ``delta`` in cells low..high of the pair whose cells start at ``first``."""
    best = delta[first + low]
    for i in range(low + 1, high + 1):
        if delta[first + i] < best:
            best = delta[first + i]
    return best


@njit(cache=True, nogil=True)
def _costs(
    tree_leaf: Array, value: Array, con_start: Array, con_pair: Array, con_low: Array, con_high: Array,
    pair_feature: Array, tree_pair: Array, pair_cell: Array, delta: Array, low: Array, high: Array,
    alive: Array, cost: Array, con_least: Array, pair_least: Array,
) -> float:  # fmt: skip
    """Fill which leaves meet the box, what each costs with ``delta``; the sum of the least costs."""
    bound = 0.0
    for t in range(tree_leaf.shape[0] - 1):
        total = 0.0
        for p in range(tree_pair[t], tree_pair[t + 1]):
            f = pair_feature[p]
            pair_least[p] = _least(delta, pair_cell[p], low[f], high[f])
            total += pair_least[p]
        best = np.inf
        for leaf in range(tree_leaf[t], tree_leaf[t + 1]):
            meets, own = True, value[leaf] + total
            for c in range(con_start[leaf], con_start[leaf + 1]):
                p = con_pair[c]
                f = pair_feature[p]
                least, greatest = max(con_low[c], low[f]), min(con_high[c], high[f])
                if least > greatest:
                    meets = False
                    break
                con_least[c] = _least(delta, pair_cell[p], least, greatest)
                own += con_least[c] - pair_least[p]
            alive[leaf] = meets
            cost[leaf] = own if meets else np.inf
            if meets and own < best:
                best = own
        bound += best
    return bound


@njit(cache=True, nogil=True)
def _marginals(
    t: int, p: int, n_low: int, n_high: int, tree_leaf: Array, con_start: Array, con_pair: Array, con_low: Array,
    con_high: Array, alive: Array, cost: Array, con_least: Array, pair_least: Array, out: Array,
) -> None:  # fmt: skip
    """The least cost of a leaf of tree ``t`` for each cell of the feature of pair ``p``, without this pair's delta."""
    for i in range(n_low, n_high + 1):
        out[i] = np.inf
    everywhere = np.inf
    for leaf in range(tree_leaf[t], tree_leaf[t + 1]):
        if not alive[leaf]:
            continue
        asks = False
        for c in range(con_start[leaf], con_start[leaf + 1]):
            if con_pair[c] == p:
                base = cost[leaf] - con_least[c]
                for i in range(max(con_low[c], n_low), min(con_high[c], n_high) + 1):
                    if base < out[i]:
                        out[i] = base
                asks = True
                break
        if not asks and cost[leaf] - pair_least[p] < everywhere:
            everywhere = cost[leaf] - pair_least[p]
    if everywhere < np.inf:
        for i in range(n_low, n_high + 1):
            if everywhere < out[i]:
                out[i] = everywhere


@njit(cache=True, nogil=True)
def _moved(
    t: int, p: int, f_low: int, f_high: int, tree_leaf: Array, con_start: Array, con_pair: Array, con_low: Array,
    con_high: Array, pair_cell: Array, delta: Array, alive: Array, cost: Array, con_least: Array, pair_least: Array,
) -> float:  # fmt: skip
    """Bring the costs of tree ``t`` up to date after the delta of pair ``p`` changed; its least cost."""
    new = _least(delta, pair_cell[p], f_low, f_high)
    shift = new - pair_least[p]
    best = np.inf
    for leaf in range(tree_leaf[t], tree_leaf[t + 1]):
        if not alive[leaf]:
            continue
        asks = False
        for c in range(con_start[leaf], con_start[leaf + 1]):
            if con_pair[c] == p:
                least = _least(delta, pair_cell[p], max(con_low[c], f_low), min(con_high[c], f_high))
                cost[leaf] += least - con_least[c]
                con_least[c] = least
                asks = True
                break
        if not asks:
            cost[leaf] += shift
        if cost[leaf] < best:
            best = cost[leaf]
    pair_least[p] = new
    return best


@njit(cache=True, nogil=True)
def _exchanged(
    tree_leaf: Array, con_start: Array, con_pair: Array, con_low: Array, con_high: Array, pair_tree: Array,
    pair_cell: Array, asked: Array, by_feature: Array, cell_start: Array, price: Array, mu: float, fixed: float,
    error: float, delta: Array, low: Array, high: Array, alive: Array, cost: Array, con_least: Array,
    pair_least: Array, least: Array, q: Array, total: Array,
) -> Any:  # fmt: skip
    """One exchange of costs for every feature, in place; cells at the ends that exceed ``error`` are cut off.

    Returns whether no cell of some feature is left, and the leaves looked at.
    """
    spent = 0
    for t in range(least.shape[0]):
        least[t] = np.inf
        for leaf in range(tree_leaf[t], tree_leaf[t + 1]):
            if alive[leaf] and cost[leaf] < least[t]:
                least[t] = cost[leaf]
    sum_least = fixed
    for t in range(least.shape[0]):
        sum_least += least[t]
    for f in range(low.shape[0]):
        count = asked[f + 1] - asked[f]
        if low[f] == high[f] or count < 2:
            continue
        others = sum_least
        for i in range(low[f], high[f] + 1):
            total[i] = mu * price[cell_start[f] + i]
        for k in range(count):
            p = by_feature[asked[f] + k]
            t = pair_tree[p]
            others -= least[t]
            _marginals(
                t, p, low[f], high[f], tree_leaf, con_start, con_pair, con_low, con_high, alive, cost,
                con_least, pair_least, q[k],
            )  # fmt: skip
            spent += 2 * (tree_leaf[t + 1] - tree_leaf[t])
            for i in range(low[f], high[f] + 1):
                total[i] += q[k, i]
        first, last = low[f], high[f]
        while first <= last and total[first] + others > error:
            first += 1
        while last >= first and total[last] + others > error:
            last -= 1
        if first > last:
            return True, spent
        low[f], high[f] = first, last
        sum_least = others
        for k in range(count):
            p = by_feature[asked[f] + k]
            t = pair_tree[p]
            for i in range(first, last + 1):
                delta[pair_cell[p] + i] = total[i] / count - q[k, i]
            least[t] = _moved(
                t, p, first, last, tree_leaf, con_start, con_pair, con_low, con_high, pair_cell, delta,
                alive, cost, con_least, pair_least,
            )  # fmt: skip
            sum_least += least[t]
    return False, spent


@njit(cache=True, nogil=True)
def search(
    constant: float, tree_leaf: Array, value: Array, con_start: Array, con_pair: Array, con_low: Array, con_high: Array,
    pair_feature: Array, tree_pair: Array, cell_start: Array, price: Array, allowance: float, error: float,
    work: int,
) -> Any:  # fmt: skip
    """Whether the sum of the trees can be at most ``error`` at cells whose prices add up to at most ``allowance``.

    Branch and bound, depth first. At a node, trees that ask one feature exchange costs cell by cell until the sum of
    their least costs rises no more (max-sum diffusion: a coordinate ascent of the Lagrangian dual). Cells at the ends
    whose bound exceeds ``error`` are cut off; then the box is split where both halves gain most.

    Args:
        price: of each cell; all 0 for Linf, where the box alone limits the move.
        work: leaves that may be looked at.

    Returns:
        PROVED, FOUND or OPEN; the cells that were found or that stay suspect [m, features]; the work done.
    """
    trees, features, pairs = tree_leaf.shape[0] - 1, cell_start.shape[0] - 1, pair_feature.shape[0]
    leaves = value.shape[0]
    suspects, spent = [np.zeros(features, np.int64)], 0
    suspects.pop()
    width = np.empty(features, np.int64)
    for f in range(features):
        width[f] = cell_start[f + 1] - cell_start[f]
    largest = 1
    for f in range(features):
        largest = max(largest, width[f])
    pair_cell = np.zeros(pairs + 1, np.int64)
    pair_tree = np.empty(pairs, np.int64)
    asked = np.zeros(features + 1, np.int64)
    for t in range(trees):
        for p in range(tree_pair[t], tree_pair[t + 1]):
            pair_tree[p] = t
    for p in range(pairs):
        pair_cell[p + 1] = pair_cell[p] + width[pair_feature[p]]
        asked[pair_feature[p] + 1] += 1
    for f in range(features):
        asked[f + 1] += asked[f]
    place, by_feature = asked.copy(), np.empty(pairs, np.int64)
    for p in range(pairs):
        by_feature[place[pair_feature[p]]] = p
        place[pair_feature[p]] += 1
    most = 0
    for f in range(features):
        most = max(most, asked[f + 1] - asked[f])
    alive, cost = np.empty(leaves, np.bool_), np.empty(leaves)
    con_least, pair_least = np.empty(con_pair.shape[0]), np.empty(pairs)
    least = np.empty(trees)
    q, total = np.empty((max(most, 1), largest)), np.empty(largest)
    gain_left, gain_right = np.empty(largest), np.empty(largest)
    priced = allowance < np.inf
    mu, fixed = 0.0, constant
    stack_low, stack_high = [np.zeros(features, np.int64)], [width - 1]
    stack_delta, stack_depth = [np.zeros(pair_cell[pairs])], [0]
    if priced and features > 0:
        best_bound, best_mu = -np.inf, 0.0
        start = _value_at(_cheapest(cell_start, price), constant, tree_leaf, value, con_start, con_pair, con_low,
                          con_high, pair_feature)  # fmt: skip
        for step in range(7):
            mu = max(start, 0.0) / max(allowance, 1e-300) * (step / 6 if step < 6 else best_mu)
            fixed = constant - mu * allowance
            low, high, delta = stack_low[0].copy(), stack_high[0].copy(), stack_delta[0]
            for p in range(pairs):
                f = pair_feature[p]
                for i in range(width[f]):
                    delta[pair_cell[p] + i] = mu * price[cell_start[f] + i] / (asked[f + 1] - asked[f])
            if step == 6:
                break
            for _ in range(8):
                bound = fixed + _costs(
                    tree_leaf, value, con_start, con_pair, con_low, con_high, pair_feature, tree_pair, pair_cell, delta,
                    low, high, alive, cost, con_least, pair_least,
                )  # fmt: skip
                if bound > error:
                    return PROVED, suspects, spent
                refuted, looked = _exchanged(
                    tree_leaf, con_start, con_pair, con_low, con_high, pair_tree, pair_cell, asked, by_feature,
                    cell_start, price, mu, fixed, error, delta, low, high, alive, cost, con_least, pair_least, least,
                    q, total,
                )  # fmt: skip
                spent += looked + leaves
                if refuted:
                    return PROVED, suspects, spent
            if bound > best_bound:
                best_bound, best_mu = bound, step / 6
    while len(stack_low) > 0:
        low, high, delta = stack_low.pop(), stack_high.pop(), stack_delta.pop()
        depth = stack_depth.pop()
        if spent > work:
            return OPEN, suspects, spent
        if priced:
            used = 0.0
            for f in range(features):
                used += np.min(price[cell_start[f] + low[f] : cell_start[f] + high[f] + 1])
            if used > allowance:
                continue
            for f in range(features):
                own = np.min(price[cell_start[f] + low[f] : cell_start[f] + high[f] + 1])
                while price[cell_start[f] + low[f]] - own > allowance - used:
                    low[f] += 1
                while price[cell_start[f] + high[f]] - own > allowance - used:
                    high[f] -= 1
        sweeps = 30 if depth == 0 else 6
        refuted, before = False, -np.inf
        for sweep in range(sweeps):
            bound = fixed + _costs(
                tree_leaf, value, con_start, con_pair, con_low, con_high, pair_feature, tree_pair, pair_cell, delta,
                low, high, alive, cost, con_least, pair_least,
            )  # fmt: skip
            spent += leaves
            if bound > error:
                refuted = True
                break
            if sweep > 1 and bound - before < 0.05 * (error - before):
                break
            before = bound
            refuted, looked = _exchanged(
                tree_leaf, con_start, con_pair, con_low, con_high, pair_tree, pair_cell, asked, by_feature, cell_start,
                price, mu, fixed, error, delta, low, high, alive, cost, con_least, pair_least, least, q, total,
            )  # fmt: skip
            spent += looked
            if refuted:
                break
        if refuted:
            continue
        _costs(
            tree_leaf, value, con_start, con_pair, con_low, con_high, pair_feature, tree_pair, pair_cell, delta,
            low, high, alive, cost, con_least, pair_least,
        )  # fmt: skip
        best_score, best_feature, best_cell = -1.0, -1, -1
        meet_low, meet_high = low.copy(), high.copy()  # where the cheapest leaves of all trees meet
        real = constant
        for t in range(trees):
            chosen, lowest = -1, np.inf
            for leaf in range(tree_leaf[t], tree_leaf[t + 1]):
                if alive[leaf] and cost[leaf] < lowest:
                    chosen, lowest = leaf, cost[leaf]
            real += value[chosen]
            for c in range(con_start[chosen], con_start[chosen + 1]):
                f = pair_feature[con_pair[c]]
                meet_low[f] = max(meet_low[f], con_low[c])
                meet_high[f] = min(meet_high[f], con_high[c])
        conflict = False
        for f in range(features):
            if meet_low[f] > meet_high[f]:
                conflict = True
        # a row where the trees nearly agree: for each feature a cell between the ends
        cells = np.empty(features, np.int64)
        for f in range(features):
            if meet_low[f] <= meet_high[f]:
                cells[f] = meet_low[f]
                for i in range(meet_low[f], meet_high[f] + 1):
                    if price[cell_start[f] + i] < price[cell_start[f] + cells[f]]:
                        cells[f] = i
            else:
                cells[f] = min(max(meet_high[f], low[f]), high[f])
        if conflict:
            real = _value_at(cells, constant, tree_leaf, value, con_start, con_pair, con_low, con_high, pair_feature)
        paid = 0.0
        if priced:
            for f in range(features):
                paid += price[cell_start[f] + cells[f]]
        affordable = paid <= allowance
        if not conflict and real > error and _is_all(meet_low, meet_high, low, high):
            continue
        if real < -error and affordable:
            suspects.clear()
            suspects.append(cells)
            return FOUND, suspects, spent
        for f in range(features):
            count = asked[f + 1] - asked[f]
            if low[f] == high[f] or count == 0:
                continue
            for i in range(low[f], high[f] + 1):
                gain_left[i], gain_right[i] = 0.0, 0.0
            for k in range(count):
                p = by_feature[asked[f] + k]
                t = pair_tree[p]
                _marginals(
                    t, p, low[f], high[f], tree_leaf, con_start, con_pair, con_low, con_high, alive, cost, con_least,
                    pair_least, q[0],
                )  # fmt: skip
                spent += tree_leaf[t + 1] - tree_leaf[t]
                lowest = np.inf
                for i in range(low[f], high[f] + 1):
                    q[0, i] += delta[pair_cell[p] + i]
                    lowest = min(lowest, q[0, i])
                running = np.inf
                for i in range(low[f], high[f]):  # cells up to i on the left
                    running = min(running, q[0, i])
                    gain_left[i] += running - lowest
                running = np.inf
                for i in range(high[f], low[f], -1):
                    running = min(running, q[0, i])
                    gain_right[i - 1] += running - lowest
            for i in range(low[f], high[f]):
                score = min(gain_left[i], gain_right[i]) + 0.1 * max(gain_left[i], gain_right[i])
                if meet_low[f] > meet_high[f] and score < 1e-12:
                    score = 1e-12
                if score > best_score:
                    best_score, best_feature, best_cell = score, f, i
        if best_score <= 0.0:  # the bound is the same everywhere: isolate the cells where the cheapest leaves meet
            best_feature = -1
            for f in range(features):
                if meet_low[f] > low[f]:
                    best_feature, best_cell = f, meet_low[f] - 1
                    break
                if meet_high[f] < high[f]:
                    best_feature, best_cell = f, meet_high[f]
                    break
            if priced and best_feature < 0:
                for f in range(features):
                    if low[f] < high[f]:
                        best_feature, best_cell = f, (low[f] + high[f]) // 2
                        break
        if best_feature < 0:
            if affordable:
                suspects.append(cells)
                if len(suspects) > MOST_SUSPECTS:
                    return OPEN, suspects, spent
            continue
        upper_low, lower_high = low.copy(), high.copy()
        upper_low[best_feature], lower_high[best_feature] = best_cell + 1, best_cell
        left_first = cells[best_feature] > best_cell
        for turn in range(2):
            if (turn == 0) == left_first:
                stack_low.append(low.copy())
                stack_high.append(lower_high)
            else:
                stack_low.append(upper_low)
                stack_high.append(high.copy())
            stack_delta.append(delta.copy())
            stack_depth.append(depth + 1)
    return PROVED, suspects, spent


@njit(cache=True, nogil=True)
def _cheapest(cell_start: Array, price: Array) -> Array:
    """The cell of each feature that costs nothing: the one of the input."""
    cells = np.zeros(cell_start.shape[0] - 1, np.int64)
    for f in range(cells.shape[0]):
        cells[f] = np.argmin(price[cell_start[f] : cell_start[f + 1]])
    return cells


@njit(cache=True, nogil=True)
def _is_all(meet_low: Array, meet_high: Array, low: Array, high: Array) -> bool:
    """Whether the cheapest leaves of all trees hold the whole box, so that there are no others."""
    return bool(np.all(meet_low <= low) and np.all(meet_high >= high))


@njit(cache=True, nogil=True)
def _value_at(
    cells: Array, constant: float, tree_leaf: Array, value: Array, con_start: Array, con_pair: Array, con_low: Array,
    con_high: Array, pair_feature: Array,
) -> float:  # fmt: skip
    """The sum of the trees at one row of cells."""
    total = constant
    for t in range(tree_leaf.shape[0] - 1):
        for leaf in range(tree_leaf[t], tree_leaf[t + 1]):
            here = True
            for c in range(con_start[leaf], con_start[leaf + 1]):
                own = cells[pair_feature[con_pair[c]]]
                if own < con_low[c] or own > con_high[c]:
                    here = False
                    break
            if here:
                total += value[leaf]
                break
    return total
