"""Results that nobody measured, one of each kind, for pages and pictures."""

from dygcn_lab.costs.crossover import crossing

GRAPHS = {"arxiv-coauthor": 445_350, "as-caida": 26_475, "power-law": 169_343}


def update():
    rows = []
    for number, (graph, nodes) in enumerate(GRAPHS.items()):
        for size, times in ((1, 3.1), (1000, 1.7), (10_000, 1.45)):
            median = 40.0 * size**0.7 * (1 + number)
            rows.append(
                {
                    "graph": graph,
                    "width": 256,
                    "events": size,
                    "median_us": median,
                    "p99_us": 3 * median,
                    "bare_us": median / times,
                    "times_bare": times,
                    "events_per_second": 1e6 * size / median,
                    "rows_per_event": 38.0 / (1 + number),
                    "additions_per_event": 52.0 / (1 + number),
                    "vectors_per_event": 35.0 / (1 + number),
                    "vectors_of_a_rerun": nodes,
                    "times_cheaper_than_recompute": 3e6 / median,
                }
            )
    graphs = [
        {
            "graph": graph,
            "width": 256,
            "nodes": nodes,
            "edges": 3 * nodes,
            "load_seconds": 4.0,
            "recompute_seconds": 3.0,
        }
        for graph, nodes in GRAPHS.items()
    ]
    setting = {"kind": "update", "orders": 2, "repeats": 30, "load_average": 0.4}
    return {**setting, "graphs": graphs, "batches": rows}


def crossover():
    graphs = []
    for graph, nodes in GRAPHS.items():
        sizes = [1, 10, 100, 1000, 10_000]
        ours = [60.0 + 20 * size**0.9 for size in sizes]
        read = [1.6 * took for took in ours]
        batches = [
            {"events": size, "update_us": a, "update_and_vectors_us": b, "vectors_moved": 30.0 * size}
            for size, a, b in zip(sizes, ours, read, strict=True)
        ]
        times = {
            "recompute in place": (0.12 * nodes, 0.3 * nodes),
            "Cleora rerun": (9.0 * nodes,) * 2,
            "Cleora rerun, its graph ready": (4.0 * nodes,) * 2,
            "GCN forward": (1.2 * nodes,) * 2,
        }
        rivals = [
            {
                "name": name,
                "state_us": state,
                "vectors_us": vectors,
                "cheaper_from_batch": crossing(sizes, ours, state),
                "cheaper_from_batch_with_vectors": crossing(sizes, read, vectors),
            }
            for name, (state, vectors) in times.items()
        ]
        size = {"graph": graph, "nodes": nodes, "edges": 3 * nodes}
        graphs.append({**size, "batches": batches, "rivals": rivals})
    setting = {"kind": "crossover", "width": 256, "dim": 128, "orders": 2, "repeats": 5, "load_average": 0.5}
    return {**setting, "workers": 2, "notes": ["left out: the moon. It is too far away"], "graphs": graphs}


def scale():
    rows = [
        {
            "graph": f"steady-{nodes}-{10 * nodes}",
            "nodes": nodes,
            "edges": 10 * nodes,
            "peak_bytes": 700 * nodes,
            "rows_of_a_single_edge": 240.0,
            "events": 1000,
            "median_us": 9000.0 + 500 * number,
            "p99_us": 14_000.0,
            "bare_us": 5000.0 + 300 * number,
            "times_bare": 1.8,
            "events_per_second": 1e5,
            "rows_per_event": 61.0 + number / 10,
            "additions_per_event": 75.0,
            "vectors_per_event": 58.0,
        }
        for number, nodes in enumerate((100_000, 300_000, 1_000_000, 3_000_000, 10_000_000))
    ]
    setting = {"kind": "scale", "width": 64, "orders": 2, "degree": 20, "repeats": 20, "load_average": 0.2}
    return {**setting, "rows": rows}


def memory():
    rows = []
    for graph, nodes in GRAPHS.items():
        parts = {"sums": 2048 * nodes, "arcs": 300 * nodes, "ids": 60 * nodes, "tables": 40 * nodes}
        total = sum(parts.values())
        size = {"graph": graph, "nodes": nodes, "edges": 3 * nodes, "width": 256}
        rows.append(
            {
                **size,
                "predicted_bytes": total,
                "measured_bytes": int(1.08 * total),
                "predicted_over_measured": 1 / 1.08,
                "peak_bytes": 2 * total,
                "bytes_per_node": 2108.0,
                "bytes_per_edge": 113.0,
                "batch": 1000,
                "median_us": 9000.0,
                "parts": parts,
            }
        )
    churn = {
        "events": 1_000_000,
        "nodes": 50_000,
        "ids_seen": 2_500_000,
        "begun_bytes": 300_000_000,
        "grown_bytes": -1_000_000,
        "resident_bytes": [300_000_000, 299_000_000],
    }
    setting = {"kind": "memory", "width": 256, "orders": 2, "load_average": 0.1}
    return {**setting, "rows": rows, "churn": churn}


def tolerance():
    rows = [
        {
            "graph": graph,
            "model": "fitted",
            "tolerance": at,
            "rows_per_event": 380 / times,
            "times_fewer_rows": times,
            "error": at / 30,
            "worst": at / 2,
            "bound": 3 * at,
            "within_bound": True,
            "recall": 1 - at,
            "same_bits": True,
        }
        for graph in GRAPHS
        for at, times in ((0.0, 1.0), (0.003, 1.9), (0.01, 3.5), (0.03, 8.0))
    ]
    return {"kind": "tolerance", "events": 2000, "load_average": 0.3, "rows": rows}


def threads():
    rows = [
        {"graph": graph, "batch": size, "one_us": 9e3, "two_us": 5e3, "times_faster": 1.8}
        | {"events_per_second": 2e5, "bare_times_faster": 1.9, "same_bits": True}
        for graph in GRAPHS
        for size in (1000, 10_000)
    ]
    setting = {"kind": "threads", "width": 100, "orders": 2, "threads": 2, "load_average": 0.3}
    return {**setting, "rows": rows}


def base():
    about = {"graph": "power-law-3m-30m", "nodes": 3_000_000, "edges": 30_000_000, "rank": 128, "seed": 0}
    took = {"seconds": 210.0, "cpu_seconds": 205.5, "before_bytes": 8e8, "peak_bytes": 4e9}
    took |= {"grown_bytes": 3.2e9, "result_bytes": 1_536_000_000, "load_average": 0.3}
    rows = [
        {**about, "asked_window": 1, "window": 1, "budget_bytes": budget, "core": core, "rows": core, **took}
        for budget, core in ((3 << 30, 3_000_000), (1_300_000_000, 1_000_000))
    ]
    return {"kind": "base", "load_average": 0.3, "rows": rows}


def kinds():
    cost = {"sums_bytes": 800, "table_bytes": 140, "rows_a_single_edge": 33.5, "single_us": 40.0}
    cost |= {"batch_us_an_event": 9.0, "read_us": 8.0, "read_many_us": 1.5}
    rows = [
        {"graph": g, "features": kind, "nodes": 99, **cost} for g in GRAPHS for kind in ("hashed", "walks")
    ]
    took = {"graph": "arxiv-coauthor", "features": "walks", "nodes": 445_350, "edges": 1_544_379, "window": 2}
    took |= {"rows": 445_350, "heads": ["new"], "seconds": 70.0, "cpu_seconds": 50.0, "load_average": 1.0}
    fits = [{**took, "before_bytes": 4e8, "peak_bytes": 2e9}]
    return {"kind": "kinds", "load_average": 0.3, "rows": rows, "fits": fits}


def score():
    about = [{"graph": graph, "nodes": nodes, "edges": 3 * nodes} for graph, nodes in GRAPHS.items()]
    cost = {"cosine_us": 3.0, "new_us": 12.0, "next_us": 12.5, "times_new": 4.0, "times_next": 4.1}
    rows = [{**graph, "pairs": pairs, **cost} for graph in about for pairs in (1, 100, 10_000)]
    took = {"with_us": 44.0, "without_us": 40.0, "times_as_long": 1.1, "times_of_a_copy": 1.01}
    updates = [{**graph, "batch": size, **took} for graph in about for size in (1, 1000)]
    size = {"arcs_with": 76.0, "arcs_without": 38.0, "pair_state": 38.0, "activity": 14.5, "numbers": 41}
    sizes = [{**graph, **size} for graph in about]
    return {"kind": "score", "load_average": 0.3, "rows": rows, "updates": updates, "bytes": sizes}


def recommend():
    about = [{"graph": graph, "nodes": nodes, "edges": 3 * nodes} for graph, nodes in GRAPHS.items()]
    cost = {"asked": 100, "recall": 0.99, "least_recall": 0.9}
    cost |= {"recommend_ms": 5.0, "everyone_ms": 15.0, "times_faster": 3.0}
    rows = [{**graph, "links": links, **cost} for graph in about for links in ("new", "next")]
    return {"kind": "recommend", "k": 10, "seed": 0, "load_average": 0.3, "rows": rows}


def engines():
    took = {"other_us": 40.0, "this_us": 30.0, "ratio": 0.75, "ratio_avx2": 0.8, "ratio_baseline": 1.2}
    took |= {"times_bare": 1.4, "other_times_bare": 1.9}
    rows = [
        {"graph": graph, "width": 256, "events": events, **took} for graph in GRAPHS for events in (1, 1000)
    ]
    return {"kind": "engines", "rounds": 3, "load_average": 0.3, "rows": rows}


def reads():
    took = {"vectors": 10_000, "other_us": 12.0, "this_us": 4.0, "ratio": 0.33}
    kinds = (("hashed", 256), ("walks", 128))
    rows = [
        {"graph": graph, "features": kind, "width": width, "dim": 128, **took}
        for graph in GRAPHS
        for kind, width in kinds
    ]
    return {"kind": "reads", "rounds": 3, "load_average": 0.3, "rows": rows}


def start():
    took = {"cpu_seconds": 0.2, "seconds": 0.3, "first_cpu_seconds": 0.4}
    commands = (
        "python",
        "dygcn --help",
        "dygcn info FOLDER",
        "dygcn nearest FOLDER ID",
        "the README's example",
    )
    environments = ("this one", "another")
    rows = [{"environment": one, "name": name, **took} for one in environments for name in commands]
    answers = {"ready_seconds": 3.0, "ready_cpu_seconds": 2.9, "first_seconds": 0.02, "second_seconds": 0.01}
    answers |= {"hundredth_seconds": 0.008, "times_hundredth": 2.5}
    about = {"graph": "power-law-100k-1m", "nodes": 100_000, "edges": 1_000_000}
    services = [{"environment": one, **about, **answers} for one in environments]
    setting = {"kind": "start", "repeats": 5, "graph": "power-law-100k-1m", "starts": 3, "load_average": 0.3}
    return {**setting, "rows": rows, "services": services}


def service():
    about = {
        "graph": "arxiv-coauthor",
        "nodes": 445_000,
        "edges": 1_540_000,
        "dim": 128,
        "answer_bytes": 1_500,
    }
    took = {"reads_a_second": 8_000.0, "bare_a_second": 9_000.0, "ratio": 0.89, "cpu_us": 90.0}
    took |= {"bare_cpu_us": 85.0, "p99_ms": 3.0, "bare_p99_ms": 2.9}
    waits = [{"beside": "nothing", "p50_ms": 1.0, "p99_ms": 2.0, "reads": 500, "times_quiet": 1.0}]
    sent = {"events_a_second": 5_000.0, "refused": 0, "p50_ms": 8.0, "p99_ms": 20.0}
    life = {"state": "quiet", "ready_seconds": 5.0, "first_read_seconds": 0.01, "first_write_seconds": 0.02}
    life |= {"first_nearest_seconds": 0.03, "pending": 0, "exit_code": 0, "exit_seconds": 1.5}
    return {
        "kind": "service",
        **about,
        "load_average": 0.4,
        "rounds": [{"while": one, **took} for one in ("nothing is written", "events are applied")],
        "waits": waits,
        "events": {"asked_a_second": 5_000, "request_size": 100, "alone": sent, "with_reads": sent},
        "lifecycle": [life],
        "sequence": 100,
    }


def everything():
    made = (update(), crossover(), scale(), memory(), tolerance(), threads(), base(), kinds(), score())
    made += (recommend(), engines(), reads(), service(), start())
    return {one["kind"]: one for one in made}
