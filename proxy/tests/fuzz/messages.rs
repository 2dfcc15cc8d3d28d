//! Startup packets, messages of both sides, the data of COPY, object identifiers in messages.

use crate::engine::Target;
use crate::engine::hex;
use crate::engine::hold;
use crate::engine::kind_of;
use bytes::BytesMut;
use shardway::error::Error;
use shardway::value::Oid;
use shardway::value::oid::FIRST_USER;
use shardway::variables;
use shardway::wire;
use shardway::wire::backend;
use shardway::wire::copy;
use shardway::wire::copy::Cut;
use shardway::wire::copy::Cutter;
use shardway::wire::copy::Format;
use shardway::wire::copy::Kind;
use shardway::wire::copy::Shape;
use shardway::wire::frontend;
use shardway::wire::oids::Holds;
use shardway::wire::oids::Numbers;
use shardway::wire::oids::RelationNumbers;
use shardway::wire::startup;
use std::collections::HashMap;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn target<'a>(
    name: &'a str,
    corpus: Vec<Vec<u8>>,
    dictionary: &'a [&'a [u8]],
    run: &'a dyn Fn(&[u8]) -> Result<String, String>,
) -> Target<'a> {
    Target { name, corpus, dictionary, memory: (128 * 1024, 200), time: SECOND, run }
}

fn told(error: &Error) -> String {
    kind_of(&error.to_string())
}

fn packet(version: u32, parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = version.to_be_bytes().to_vec();
    for text in parameters.iter().flat_map(|(n, v)| [n, v]) {
        body.extend(text.as_bytes());
        body.push(0);
    }
    body.push(0);
    [(body.len() as u32 + 4).to_be_bytes().to_vec(), body].concat()
}

#[test]
fn startup_packets() {
    let corpus = vec![
        packet(3 << 16, &[("user", "app"), ("database", "shop"), ("application_name", "x")]),
        packet((3 << 16) + 2, &[("user", "app"), ("options", "-c geqo=off --work-mem=1MB -S 100 -e"), ("_pq_.x", "1")]),
        packet((3 << 16) + 9_999, &[("user", "a"), ("replication", "database"), ("DateStyle", "ISO\\ MDY")]),
        vec![0, 0, 0, 8, 4, 210, 22, 47],
        vec![0, 0, 0, 8, 4, 210, 22, 48],
        vec![0, 0, 0, 16, 4, 210, 22, 46, 0, 0, 0, 9, 1, 2, 3, 4],
        packet(2 << 16, &[]),
    ];
    let dictionary: &[&[u8]] = &[b"user\0", b"options\0", b"-c a=b", b"_pq_.y\0", b"\0", b"\\ ", b"--"];
    target("startup", corpus, dictionary, &|input| {
        match startup::packet_length(input) {
            Err(error) => return Ok(told(&error)),
            Ok(None) => return Ok("short".to_owned()),
            Ok(Some(_)) => {}
        }
        let first = match startup::decode(input) {
            Ok(first) => first,
            Err(error) => return Ok(told(&error)),
        };
        let startup::First::Startup(read) = &first else { return Ok(kind_of(&format!("{first:?}"))) };
        let pairs: Vec<(&str, &str)> = read.parameters.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let options = read.protocol_options.iter().map(|name| (name.as_str(), ""));
        let again =
            packet((3 << 16) + u32::from(read.minor), &pairs.iter().copied().chain(options).collect::<Vec<_>>());
        let second = startup::decode(&again).map_err(|error| error.to_string())?;
        hold(second == first, || format!("read again as {second:?}"))?;
        Ok(match variables::startup::settings(pairs) {
            Ok(settings) => format!("{} settings", settings.len().min(3)),
            Err(error) => told(&error),
        })
    })
    .fuzz();
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut out = BytesMut::new();
    frontend::frame(&mut out, tag, |b| b.extend_from_slice(body));
    out.to_vec()
}

/// The first message of a stream; the rest does not count.
fn cut(input: &[u8]) -> Result<(u8, &[u8]), String> {
    match wire::head(input, 1 << 20) {
        Err(error) => Err(told(&error)),
        Ok(Some(head)) if head.total <= input.len() => Ok((head.tag, &input[wire::HEAD..head.total])),
        Ok(_) => Err("short".to_owned()),
    }
}

#[test]
fn frontend_messages() {
    let corpus = vec![
        message(b'Q', b"SELECT 1\0"),
        message(b'P', b"name\0SELECT $1\0\0\x02\0\0\0\x14\0\0\0\x19"),
        message(b'B', b"p\0s\0\0\x01\0\x01\0\x02\xff\xff\xff\xff\0\0\0\x03abc\0\x02\0\0\0\x01"),
        message(b'D', b"Sname\0"),
        message(b'C', b"Pname\0"),
        message(b'E', b"p\0\0\0\0\x05"),
    ];
    target("frontend", corpus, &[b"\0", b"\0\0", b"\xff\xff\xff\xff"], &|input| {
        let (tag, body) = match cut(input) {
            Ok(message) => message,
            Err(outcome) => return Ok(outcome),
        };
        let mut out = BytesMut::new();
        let result = match tag {
            frontend::QUERY => frontend::query(body).map(|text| frontend::put_query(&mut out, text)),
            frontend::PARSE => {
                frontend::Parse::decode(body).map(|p| frontend::put_parse(&mut out, p.name, p.text, &p.types))
            }
            frontend::BIND => frontend::Bind::decode(body).map(|b| {
                for n in 0..b.params().len().max(b.format_count()).max(b.result_format_count()) + 2 {
                    let _ = (b.format(n), b.result_format(n));
                }
                frontend::put_bind(&mut out, b.portal, b.statement, b.tail);
            }),
            frontend::DESCRIBE => frontend::object(body, "DESCRIBE").map(|object| match object {
                frontend::Object::Statement(name) => frontend::put_describe_statement(&mut out, name),
                frontend::Object::Portal(name) => frontend::put_describe_portal(&mut out, name),
            }),
            frontend::CLOSE => frontend::object(body, "CLOSE").map(|object| match object {
                frontend::Object::Statement(name) => frontend::put_close_statement(&mut out, name),
                frontend::Object::Portal(name) => frontend::put_close_portal(&mut out, name),
            }),
            frontend::EXECUTE => {
                frontend::Execute::decode(body).map(|e| frontend::put_execute(&mut out, e.portal, e.max_rows))
            }
            _ => return Ok("other".to_owned()),
        };
        match result {
            Err(error) => Ok(format!("{tag} {}", told(&error))),
            Ok(()) => {
                let same = out.get(wire::HEAD..) == Some(body);
                hold(same, || format!("written as {}", hex(&out)))?;
                Ok(format!("{tag} read"))
            }
        }
    })
    .fuzz();
}

#[test]
fn backend_messages() {
    let column = b"id\0\0\0\x40\x01\0\x01\0\0\0\x14\0\x08\xff\xff\xff\xff\0\0";
    let corpus = vec![
        message(b'T', &[b"\0\x02".as_slice(), column, column].concat()),
        message(b't', b"\0\x02\0\0\0\x14\0\0\0\x19"),
        message(b'S', b"TimeZone\0UTC\0"),
        message(b'Z', b"I"),
        message(b'E', b"SERROR\0VERROR\0C22012\0Mdivision by zero\0P7\0Fint.c\0L1\0Rint4div\0\0"),
        message(b'N', b"SWARNING\0C01000\0Mwell\0Dthat\0Hthis\0\0"),
        message(b'C', b"INSERT 0 5\0"),
        message(b'D', b"\0\x03\0\0\0\x02ab\xff\xff\xff\xff\0\0\0\0"),
    ];
    target("backend", corpus, &[b"\0", b"VFATAL\0", b"C42601\0", b"M", b"P99999999999\0"], &|input| {
        let (tag, body) = match cut(input) {
            Ok(message) => message,
            Err(outcome) => return Ok(outcome),
        };
        let whole = backend::is_whole(tag, body);
        let mut out = BytesMut::new();
        let result = match tag {
            backend::ROW_DESCRIPTION => {
                let read = backend::row_description(body);
                hold(read.is_ok() == whole, || format!("whole: {whole}, but {read:?}"))?;
                read.map(|fields| backend::put_row_description(&mut out, &fields))
            }
            backend::PARAMETER_DESCRIPTION => {
                backend::parameter_description(body).map(|types| backend::put_parameter_description(&mut out, &types))
            }
            backend::PARAMETER_STATUS => match backend::parameter_status(body) {
                Ok((name, value)) => {
                    let (Ok(name), Ok(value)) = (std::str::from_utf8(name), std::str::from_utf8(value)) else {
                        return Ok("not text".to_owned());
                    };
                    backend::put_parameter_status(&mut out, name, value);
                    Ok(())
                }
                Err(error) => Err(error),
            },
            backend::READY => backend::ready_status(body).map(|status| backend::put_ready(&mut out, status)),
            backend::ERROR | backend::NOTICE => {
                let error = backend::error(body);
                let mut raw = BytesMut::new();
                backend::put_error(&mut raw, &error);
                hold(raw.get(wire::HEAD..) == Some(body), || "an error is not passed on as it came".to_owned())?;
                // Written in our own words, it must be one that a client can read.
                let mut own = error;
                own.raw = None;
                backend::put_error(&mut out, &own);
                let own_body = out.get(wire::HEAD..).unwrap_or_default();
                hold(backend::is_whole(tag, own_body), || format!("written as {}", hex(&out)))?;
                return Ok(format!("{tag} {whole} {:?}", own.severity));
            }
            backend::COMMAND_COMPLETE => {
                return Ok(format!("{tag} {whole} {}", backend::tag_rows(body).is_some()));
            }
            backend::DATA_ROW => wire::read::row_values(body).map(|values| {
                let mut numbered = body.to_vec();
                let columns: Vec<(usize, Oid)> = (0..values.len()).map(|n| (n, 2_000_000)).collect();
                let _ = Numbers::default().values(&columns, &mut numbered);
                out.extend_from_slice(&[0; wire::HEAD]);
                out.extend_from_slice(body);
            }),
            _ => return Ok("other".to_owned()),
        };
        match result {
            Err(error) => Ok(format!("{tag} {}", told(&error))),
            Ok(()) => {
                hold(out.get(wire::HEAD..) == Some(body), || format!("written as {}", hex(&out)))?;
                Ok(format!("{tag} read"))
            }
        }
    })
    .fuzz();
}

fn shapes() -> Vec<Shape> {
    let mut shapes: Vec<Shape> = [Format::Text, Format::Csv, Format::Binary].into_iter().map(Shape::of).collect();
    shapes.push(Shape { header: true, delimiter: b'|', null: b"null".to_vec(), ..Shape::of(Format::Text) });
    shapes.push(Shape { header: true, ..Shape::of(Format::Csv) });
    shapes.push(Shape { quote: b'\'', escape: b'\\', null: b"\\N".to_vec(), ..Shape::of(Format::Csv) });
    shapes
}

/// All pieces of a stream that comes in chunks of these lengths, over and over.
fn pieces(shape: &Shape, stream: &[u8], lengths: &[usize]) -> Vec<Cut> {
    let mut cutter = Cutter::new(shape.clone());
    let mut cuts = Vec::new();
    let mut rest = stream;
    for length in lengths.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (chunk, tail) = rest.split_at((*length).clamp(1, rest.len()));
        rest = tail;
        cutter.feed(chunk);
        while let Some(cut) = cutter.next_cut() {
            cuts.push(cut);
        }
    }
    while let Some(cut) = cutter.last_cut() {
        cuts.push(cut);
    }
    cuts
}

#[test]
fn copy_data() {
    let header = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
    let row = b"\0\x02\0\0\0\x04\0\0\0\x01\xff\xff\xff\xff";
    let corpus = [
        (0_u8, b"1\ta\\tb\n2\t\\N\n\\.\n".to_vec()),
        (0, b"1\ta\\\nb\r\n2\t\\x41\\101\r\n".to_vec()),
        (1, b"1,\"a\"\"b\n\",\n2,,\"\"\n\\.\nrest".to_vec()),
        (1, b"a,b\r1,2\r".to_vec()),
        (2, [header.as_slice(), row, row, b"\xff\xff"].concat()),
        (3, b"id|name\n1|null\n".to_vec()),
        (4, b"id,name\r\n1,\"x\"\r\n".to_vec()),
        (5, b"'it\\'s',\\N\n'\\\\',2\n".to_vec()),
    ];
    let corpus = corpus.into_iter().map(|(shape, data)| [vec![shape, 3, 7], data].concat()).collect();
    let dictionary: &[&[u8]] =
        &[b"\\.", b"\\.\n", b"\\.\r\n", b"\n", b"\r", b"\r\n", b"\\", b"\"", b"\"\"", b"\\N", b",", b"\t", b"\xff\xff"];
    let shapes = shapes();
    let run = |input: &[u8]| {
        let [shape, first, second, stream @ ..] = input else { return Ok("short".to_owned()) };
        let shape = &shapes[usize::from(*shape) % shapes.len()];
        let whole = pieces(shape, stream, &[usize::MAX]);
        let chunked = pieces(shape, stream, &[usize::from(*first), usize::from(*second)]);
        hold(whole == chunked, || format!("whole {whole:?}\nin chunks {chunked:?}"))?;
        let singly = pieces(shape, stream, &[1]);
        hold(whole == singly, || format!("whole {whole:?}\nsingly {singly:?}"))?;
        let together: Vec<u8> = whole.iter().flat_map(|cut| cut.bytes.to_vec()).collect();
        // Behind the end marker nothing counts, whatever row it stands in.
        let marked = |cut: &Cut| cut.kind == Kind::End || cut.bytes.windows(2).any(|w| w == b"\\.");
        let complete = together.len() == stream.len() || whole.last().is_some_and(marked);
        hold(stream.starts_with(&together) && complete, || format!("cut into {whole:?}"))?;
        let mut kinds = String::new();
        for cut in &whole {
            let fields = copy::fields(shape, &cut.bytes, 4);
            hold(fields.len() <= 4, || format!("{} fields", fields.len()))?;
            if kinds.len() < 40 {
                kinds.push_str(&format!("{:?}{}", cut.kind, fields.len()));
            }
        }
        Ok(format!("{:?} {kinds}", shape.format))
    };
    // Every second byte may be a row; they are kept three times.
    Target { memory: (128 * 1024, 2_000), ..target("copy", corpus, dictionary, &run) }.fuzz();
}

/// Numbers that move every user's type and table by `by`, with every holder of numbers.
fn numbers(by: Oid, back: bool) -> Numbers {
    let move_by = |n: Oid| if back { (n + by, n) } else { (n, n + by) };
    let users: Vec<Oid> = (FIRST_USER..FIRST_USER + 12).collect();
    let side = |n: Oid| move_by(n).0;
    let holders = [
        (0, Holds::Array),
        (1, Holds::Record),
        (2, Holds::Range(side(FIRST_USER + 1))),
        (3, Holds::Multirange(side(FIRST_USER + 2))),
        (4, Holds::Domain(side(FIRST_USER))),
    ];
    let mut holders: HashMap<Oid, Holds> = holders.into_iter().map(|(n, h)| (side(FIRST_USER + n), h)).collect();
    holders.extend([(2206, Holds::Type), (2205, Holds::Relation), (2211, Holds::Array), (2249, Holds::Record)]);
    Numbers {
        types: users.iter().map(|n| move_by(*n)).collect(),
        relations: users
            .iter()
            .map(|n| move_by(*n))
            .map(|(from, to)| (from, RelationNumbers { oid: to, columns: HashMap::new() }))
            .collect(),
        holders,
    }
}

#[test]
fn object_identifiers() {
    let user = |n: u32| (FIRST_USER + n).to_be_bytes();
    let array = [b"\0\0\0\x01\0\0\0\0".as_slice(), &user(1), b"\0\0\0\x01\0\0\0\x01\xff\xff\xff\xff"].concat();
    let record = [b"\0\0\0\x02".as_slice(), &user(6), b"\0\0\0\x02ab\0\0\x08\x9e\0\0\0\x04", &user(7)].concat();
    let sized = |value: &[u8]| [(value.len() as u32).to_be_bytes().to_vec(), value.to_vec()].concat();
    let range = [b"\x02".as_slice(), &sized(&record), &sized(&record)].concat();
    let multirange = [b"\0\0\0\x01".as_slice(), &sized(&range)].concat();
    let row = |value: &[u8]| [b"\0\x01".to_vec(), sized(value)].concat();
    let column = [b"id\0".as_slice(), &user(3), b"\0\x01", &user(1), b"\xff\xff\xff\xff\xff\xff\0\x01"].concat();
    let corpus = vec![
        [vec![0], b"\0\x01".to_vec(), column].concat(),
        [vec![1], b"\0\x02".to_vec(), user(0).to_vec(), user(11).to_vec()].concat(),
        [vec![2], row(&array)].concat(),
        [vec![3], row(&record)].concat(),
        [vec![4], row(&range)].concat(),
        [vec![5], row(&multirange)].concat(),
        [vec![6], row(&array)].concat(),
        [vec![7], row(&user(2))].concat(),
    ];
    let dictionary: [&[u8]; 6] =
        [&user(0), &user(1), &user(2), b"\xff\xff\xff\xff", &[0, 0, 0x08, 0xb9], &[0, 0, 0x08, 0x9e]];
    let (there, back, same) = (numbers(1_000, false), numbers(1_000, true), numbers(0, false));
    let holder = |numbers: u32, kind: u8| match kind {
        2..=6 => FIRST_USER + numbers + u32::from(kind - 2),
        7 => 2206,
        8 => 2205,
        _ => 2249,
    };
    let rewrite = |numbers: &Numbers, by: u32, kind: u8, body: &mut [u8]| match kind {
        0 => numbers.row_description(body),
        1 => numbers.parameter_description(body),
        kind => numbers.values(&[(0, holder(by, kind))], body).map(|()| false),
    };
    target("oids", corpus, &dictionary, &|input| {
        let Some((kind, body)) = input.split_first() else { return Ok("short".to_owned()) };
        let kind = kind % 10;
        let mut rewritten = body.to_vec();
        let missing = match rewrite(&there, 0, kind, &mut rewritten) {
            Ok(missing) => missing,
            Err(error) => return Ok(format!("{kind} {}", told(&error))),
        };
        // Numbers that were moved and are none of the other side's cannot come back.
        let outside = |bytes: &[u8]| {
            let words = bytes.windows(4).map(|w| u32::from_be_bytes([w[0], w[1], w[2], w[3]]));
            words.filter(|&n| n >= FIRST_USER && !(FIRST_USER..FIRST_USER + 12).contains(&n)).count()
        };
        let mut equal = body.to_vec();
        if rewrite(&same, 0, kind, &mut equal).is_ok_and(|missing| !missing) && outside(body) == 0 {
            hold(equal == body, || format!("the same numbers give {}", hex(&equal)))?;
        }
        if !missing && outside(body) == 0 {
            let mut returned = rewritten.clone();
            let result = rewrite(&back, 1_000, kind, &mut returned);
            hold(result.is_ok() && returned == body, || {
                format!("{} went to {} and back as {}", hex(body), hex(&rewritten), hex(&returned))
            })?;
        }
        Ok(format!("{kind} {missing} {}", rewritten == body))
    })
    .fuzz();
}
