//! One case of a merge file → the text of its answer.

use crate::encode;
use bytes::BytesMut;
use shardway::error::Result;
use shardway::merge::Merge;
use shardway::merge::Want;
use shardway::plan::Aggregate;
use shardway::plan::MergeSpec;
use shardway::plan::Output;
use shardway::plan::SortBy;
use shardway::plan::SortKey;
use shardway::value::Oid;

/// What a case says, beside its rows.
struct Case {
    columns: Vec<Oid>,
    hidden: Vec<bool>,
    spec: MergeSpec,
    formats: Vec<i16>,
    types: Vec<Oid>,
    limit: Option<u64>,
    offset: u64,
    max_bytes: usize,
    shards: Vec<Vec<Vec<u8>>>,
}

/// Divides a file before each `== `.
pub fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for line in text.lines() {
        if line.starts_with("== ") {
            parts.push(String::new());
        }
        parts.last_mut().unwrap().push_str(&format!("{line}\n"));
    }
    parts
}

pub fn run(question: &str) -> String {
    let case = read(question);
    let mut out = BytesMut::new();
    let answer = feed(&case, &mut out);
    let mut text = rows_text(&out, &case.formats);
    match answer {
        Ok(rows) => assert_eq!(rows as usize, text.lines().count(), "rows() against the rows given"),
        Err(error) => text.push_str(&format!("error: {error}\n")),
    }
    text
}

/// Feeds the shards' rows as the merge wants them.
fn feed(case: &Case, out: &mut BytesMut) -> Result<u64> {
    let inputs = case.shards.len();
    let (formats, types) = (&case.formats, &case.types);
    let mut merge =
        Merge::new(&case.spec, &case.columns, formats, types, inputs, case.limit, case.offset, case.max_bytes)?;
    let mut next = vec![0; inputs];
    while let Want::Input(input) = merge.wants() {
        match case.shards[input].get(next[input]) {
            Some(row) => merge.row(input, row, out)?,
            None => merge.end(input, out)?,
        }
        next[input] += 1;
    }
    merge.finish(out)?;
    Ok(merge.rows())
}

fn read(question: &str) -> Case {
    let spec = MergeSpec { output: vec![], group: None, distinct: None, order: vec![] };
    let mut case = Case {
        columns: vec![],
        hidden: vec![],
        spec,
        formats: vec![],
        types: vec![],
        limit: None,
        offset: 0,
        max_bytes: 1 << 20,
        shards: vec![],
    };
    for line in question.lines().filter(|line| !line.starts_with('#') && !line.starts_with("== ") && !line.is_empty()) {
        match line.split_once(':').filter(|_| case.shards.is_empty()) {
            Some((setting, value)) => read_setting(&mut case, setting, value.trim()),
            None if line == "shard" => case.shards.push(vec![]),
            None => {
                let row = read_row(line, &case.columns, &case.hidden);
                case.shards.last_mut().expect("`shard` before rows").push(row);
            }
        }
    }
    if case.types.is_empty() {
        case.types = case.spec.output.iter().map(|output| computed_type(output, &case.columns)).collect();
    }
    case.formats.resize(case.spec.output.len(), 0);
    case
}

fn read_setting(case: &mut Case, setting: &str, value: &str) {
    let positions = || value.split_whitespace().map(|word| word.parse().unwrap()).collect();
    match setting {
        "columns" => {
            case.columns =
                value.split_whitespace().map(|word| encode::type_oid(word.trim_start_matches('*'))).collect();
            case.hidden = value.split_whitespace().map(|word| word.starts_with('*')).collect();
        }
        "output" => case.spec.output = value.split_whitespace().map(read_output).collect(),
        "group" => case.spec.group = Some(positions()),
        "distinct" => case.spec.distinct = Some(positions()),
        "order" => case.spec.order = value.split(',').map(read_sort_key).collect(),
        "formats" => case.formats = value.split_whitespace().map(|word| i16::from(word == "binary")).collect(),
        "types" => case.types = value.split_whitespace().map(encode::type_oid).collect(),
        "limit" => case.limit = Some(value.parse().unwrap()),
        "offset" => case.offset = value.parse().unwrap(),
        "max_bytes" => case.max_bytes = value.parse().unwrap(),
        other => panic!("unknown setting {other}"),
    }
}

fn read_output(word: &str) -> Output {
    let Some((function, arguments)) = word.split_once('(') else { return Output::Column(word.parse().unwrap()) };
    let arguments: Vec<usize> =
        arguments.trim_end_matches(')').split(',').map(|argument| argument.parse().unwrap()).collect();
    let (first, second) = (arguments[0], arguments.last().copied().unwrap());
    Output::Aggregate(match function {
        "count" => Aggregate::Count { partial: first },
        "sum" => Aggregate::Sum { partial: first },
        "avg" => Aggregate::Avg { sum: first, count: second },
        "min" => Aggregate::Min { value: first, sort: second },
        "max" => Aggregate::Max { value: first, sort: second },
        "bool_and" => Aggregate::BoolAnd { partial: first },
        "bool_or" => Aggregate::BoolOr { partial: first },
        "bit_and" => Aggregate::BitAnd { partial: first },
        "bit_or" => Aggregate::BitOr { partial: first },
        other => panic!("unknown aggregate {other}"),
    })
}

fn read_sort_key(text: &str) -> SortKey {
    let mut words = text.split_whitespace().peekable();
    let output = words.next_if_eq(&"out").is_some();
    let position = words.next().unwrap().parse().unwrap();
    let rest: Vec<&str> = words.collect();
    let descending = rest.first() == Some(&"desc");
    let nulls_first = if rest.contains(&"nulls") { rest.contains(&"first") } else { descending };
    let by = if output { SortBy::Output(position) } else { SortBy::Column(position) };
    SortKey { by, descending, nulls_first }
}

/// What PostgreSQL gives: the partial's type, but numeric for the average of integers.
fn computed_type(output: &Output, columns: &[Oid]) -> Oid {
    let column = match output {
        Output::Column(column) => column,
        Output::Aggregate(aggregate) => match aggregate {
            Aggregate::Avg { sum, .. } if columns[*sum] == encode::type_oid("int8") => {
                return encode::type_oid("numeric");
            }
            Aggregate::Avg { sum, .. } => sum,
            Aggregate::Min { value, .. } | Aggregate::Max { value, .. } => value,
            Aggregate::Count { partial }
            | Aggregate::Sum { partial }
            | Aggregate::BoolAnd { partial }
            | Aggregate::BoolOr { partial }
            | Aggregate::BitAnd { partial }
            | Aggregate::BitOr { partial } => partial,
        },
    };
    columns[*column]
}

fn read_row(line: &str, columns: &[Oid], hidden: &[bool]) -> Vec<u8> {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    let values = cells.iter().enumerate().map(|(i, cell)| {
        let text = cell.strip_prefix('\'').and_then(|cell| cell.strip_suffix('\'')).unwrap_or(cell);
        let encode = |text: &str| match hidden.get(i) {
            Some(true) => encode::binary(columns[i], text),
            _ => text.as_bytes().to_vec(),
        };
        (*cell != "NULL").then(|| encode(text))
    });
    encode::row(&values.collect::<Vec<_>>())
}

fn rows_text(out: &[u8], formats: &[i16]) -> String {
    let mut text = String::new();
    for row in encode::rows(out) {
        let cells = row.iter().enumerate().map(|(i, value)| match value {
            None => "NULL".to_owned(),
            Some(bytes) if formats[i] == 1 => {
                format!("\\x{}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
            }
            Some(bytes) => String::from_utf8(bytes.clone()).unwrap(),
        });
        text.push_str(&format!("{}\n", cells.collect::<Vec<_>>().join(" | ")));
    }
    text
}
