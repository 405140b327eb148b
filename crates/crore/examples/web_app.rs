//! A durable queue in a web application: a request is answered as soon as its job is on the disk, and the work is
//! done in the background. The HTTP server is a few lines of `std`; any other works too.
//!
//! `cargo run -p crore --example web_app` sends itself one request, and ends.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use crore::core::{JobId, Span};
use crore::{Engine, Work, block_on};

type AppResult<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Maximum size of a request.
const MOST_BYTES: u64 = 64 * 1024;

fn main() -> AppResult<()> {
    let folder = tempfile::tempdir()?;
    let engine = Engine::open(folder.path().join("jobs.crore"))?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    println!("server   listens on http://{address}");

    let worker = engine.worker(["thumbnails"]).parallel(2);
    let stop = worker.stopper();
    thread::scope(|scope| -> AppResult<()> {
        let working = scope.spawn(|| worker.run_blocking(make_thumbnail));
        let serving = scope.spawn(|| serve(&engine, &listener, 1));

        let answer = post(address, "/thumbnails", "cat.png")?;
        println!("browser  got `{}`", answer.lines().next().unwrap_or_default());
        let id = answer.rsplit(' ').next().unwrap_or_default().trim();
        println!("browser  job id {id}");

        let id = serving.join().map_err(|_| "the server panicked")??;
        let ended = block_on(engine.wait(id, Span::from_secs(10)))?.ok_or("it takes too long")?;
        let result = ended.result.ok_or("there is no result")?;
        println!("server   the result is `{}`", String::from_utf8_lossy(&result.bytes));

        stop.stop();
        let ran = working.join().map_err(|_| "the worker panicked")??;
        println!("worker   stopped after {ran} job");
        Ok(())
    })?;
    Ok(engine.stop()?)
}

/// The background work.
fn make_thumbnail(work: &Work<'_>) -> Result<Vec<u8>, String> {
    let name = String::from_utf8_lossy(work.payload()).into_owned();
    println!("worker   makes a thumbnail of `{name}`");
    Ok(format!("small-{name}").into_bytes())
}

/// Answers this many requests, and returns the job of the last one.
fn serve(engine: &Engine, listener: &TcpListener, requests: usize) -> AppResult<JobId> {
    let mut last = Err("there was no request".into());
    for stream in listener.incoming().take(requests) {
        last = answer(engine, &stream?);
    }
    last
}

fn answer(engine: &Engine, stream: &TcpStream) -> AppResult<JobId> {
    let mut reader = BufReader::new(stream.take(MOST_BYTES));
    let (mut line, mut length) = (String::new(), 0);
    reader.read_line(&mut line)?;
    println!("server   received `{}`", line.trim());
    while line.trim() != "" {
        line.clear();
        reader.read_line(&mut line)?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
    }
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body)?;

    // When this returns, the job is on the disk: the response can promise it.
    let id = engine.push("thumbnails", body).keep_result(Duration::from_secs(60)).wait()?;
    let text = format!("job {id}\n");
    let head = format!("HTTP/1.1 202 Accepted\r\nContent-Length: {}\r\n", text.len());
    let mut stream = stream;
    write!(stream, "{head}Connection: close\r\n\r\n{text}")?;
    Ok(id)
}

/// Sends a request, as a browser does.
fn post(address: SocketAddr, path: &str, body: &str) -> AppResult<String> {
    let mut stream = TcpStream::connect(address)?;
    let head = format!("POST {path} HTTP/1.1\r\nHost: {address}\r\n");
    write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
